import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { ToolCategory, ToolConfirmation, ToolKind, ToolPlace } from "@/gen/deckhand/v1/step_pb";
import { ToolService } from "@/gen/deckhand/v1/tool_pb";
import { showPage } from "@/test/page";
import { toolRoutes } from "./route";
import { parseToolSearch } from "./search";
import { summary, takes } from "./words";

const entry = (agent: string, args = "") => ({
  tool: {
    name: "file_delete",
    description: "Delete a file. Not the workspace itself.",
    kind: ToolKind.FILE,
    category: ToolCategory.MODERATE,
    place: ToolPlace.NODE,
    leastRole: "advanced",
    confirmation: ToolConfirmation.SUPERVISED,
    reversible: true,
    inputSchema: { type: "object" },
  },
  roleCovers: false,
  argumentsJson: args || '{"path":"old"}',
  use: agent ? { agentName: agent, effect: args ? "deny" : "ask", why: args ? "it is kept" : "", category: ToolCategory.DANGEROUS, decision: { rule: args ? "keep" : "" } } : undefined,
});

const services =
  (calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) => {
    r.service(AgentService, { listAgents: () => ({ agents: [{ id: "agent_1", name: "cleaner" }] }) });
    r.service(ToolService, {
      listTools: (req) => (calls("list", req.agentId, req.kind, req.query), { tools: [entry(req.agentId)] }),
      getTool: (req) => (calls("get", req.name, req.agentId, req.argumentsJson), { tool: entry(req.agentId, req.argumentsJson) }),
    });
  };

describe("tools", () => {
  it("are listed, by kind, and for an agent", async () => {
    const calls = vi.fn();
    const { container, history } = showPage("/tools", toolRoutes, services(calls));
    const user = userEvent.setup();
    const table = await screen.findByRole("group", { name: "Tools" });
    expect(within(table).getByText("in supervised mode")).toBeTruthy();
    expect(within(table).getByText("not yours")).toBeTruthy();
    await user.selectOptions(screen.getByLabelText("Kind"), "web");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", "", ToolKind.WEB, ""));
    await user.selectOptions(screen.getByLabelText("Agent"), "cleaner");
    await waitFor(() => expect(history.location.search).toBe("?kind=web&agent=cleaner"));
    expect(await screen.findByText("asks")).toBeTruthy();
    expect(screen.getByText("moderate (policy: dangerous)")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("show what other arguments would get", async () => {
    const calls = vi.fn();
    showPage("/tools?agent=cleaner&tool=file_delete", toolRoutes, services(calls));
    const user = userEvent.setup();
    const box = await screen.findByLabelText("Arguments of a call by cleaner");
    await user.clear(box);
    await user.type(box, '{{"path":"kept"}');
    await user.click(screen.getByRole("button", { name: "Try" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("get", "file_delete", "cleaner", '{"path":"kept"}'));
    expect(await screen.findByText("it is kept")).toBeTruthy();
    expect(screen.getByText("keep")).toBeTruthy();
  });

  it("are looked for only by what there is", () => {
    expect(parseToolSearch({ kind: "nothing", agent: "a", tool: 7 })).toEqual({ agent: "a", kind: undefined, text: undefined, tool: undefined });
    expect(summary("Delete a file. Not more.")).toBe("Delete a file.");
    expect([takes(undefined), takes(5n), takes(600n)]).toEqual(["a moment", "5 s", "10 min"]);
  });
});
