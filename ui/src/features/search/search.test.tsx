import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { HistoryService, SearchKind } from "@/gen/deckhand/v1/history_pb";
import { showPage } from "@/test/page";
import { searchRoutes } from "./route";
import { valueOf, withFilter } from "./search";

describe("a query", () => {
  it("has filters that are read and replaced, and phrases that are left alone", () => {
    expect(valueOf('"in:call is text" disk in:output agent:"a b"', "in")).toBe("output");
    expect(valueOf('disk agent:"a b"', "agent")).toBe("a b");
    expect(valueOf('"agent:x"', "agent")).toBe("");
    expect(withFilter('disk in:output "full  in:call"', "in", "message")).toBe('disk "full in:call" in:message');
    expect(withFilter("disk in:output", "in", "")).toBe("disk");
    expect(withFilter("", "agent", "a b")).toBe('agent:"a b"');
  });
});

const time = { seconds: BigInt(Math.floor(Date.now() / 1000) - 60) };

describe("the search", () => {
  const services =
    (asked = vi.fn()): Parameters<typeof showPage>[2] =>
    (r) => {
      r.service(AgentService, { listAgents: () => ({ agents: [{ id: "agent_1", name: "coder" }] }) });
      r.service(HistoryService, {
        searchHistory: (req) => {
          asked(req.query, req.pageToken);
          if (req.pageToken) return { hits: [{ kind: SearchKind.TASK, taskId: "task_2", taskTitle: "Old", time, excerpt: [{ text: "disk", match: true }] }] };
          return {
            nextPageToken: "more",
            hits: [
              {
                kind: SearchKind.OUTPUT, taskId: "task_1", taskTitle: "Clean <up>", agentName: "coder", stepId: "step_1", stepNumber: 7, tool: "shell_exec", time,
                excerpt: [{ text: "the " }, { text: "disk", match: true }, { text: " is <b>full</b>\u202e" }],
              },
              { kind: SearchKind.MESSAGE, taskId: "task_1", taskTitle: "Clean <up>", eventSeq: 12n, eventType: "message_received", saidBy: "ada", time, excerpt: [{ text: "disk?", match: true }] },
            ],
          };
        },
      });
    };

  it("shows what was found with links to the step and the moment, and pages", async () => {
    const asked = vi.fn();
    const { container, history } = showPage("/search?q=disk", searchRoutes, services(asked));
    const user = userEvent.setup();
    const list = await screen.findByRole("list", { name: "Results" });
    const links = within(list).getAllByRole("link").map((a) => a.getAttribute("href"));
    expect(links).toContain("/tasks/task_1?tab=steps&step=7&find=disk");
    expect(links).toContain("/tasks/task_1/replay?at=%2212%22");
    expect(within(list).getByText("disk", { selector: "mark" })).toBeTruthy();
    expect(list.querySelector("b"), "HTML of a result is text").toBeNull();
    expect(list.querySelector("[data-mark]")?.getAttribute("data-mark"), "what nobody sees is shown").toMatch(/U\+202E|override/i);
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Older results" }));
    expect(await screen.findByText("Old")).toBeTruthy();
    expect(asked).toHaveBeenLastCalledWith("disk", "more");
    await user.selectOptions(screen.getByLabelText("Search in"), "output");
    await waitFor(() => expect(new URLSearchParams(history.location.search).get("q")).toBe("disk in:output"));
    expect(asked).toHaveBeenLastCalledWith("disk in:output", "");
  });

  it("is done with the keyboard alone", async () => {
    showPage("/search", searchRoutes, services());
    const user = userEvent.setup();
    const input = await screen.findByLabelText("Words");
    expect(document.activeElement).toBe(input);
    await user.keyboard("disk{Enter}");
    await screen.findByRole("list", { name: "Results" });
    (document.activeElement as HTMLElement).blur();
    await user.keyboard("j");
    expect(document.activeElement?.textContent).toContain("Result of step 7");
    await user.keyboard("j");
    expect(document.activeElement?.textContent).toContain("Message");
  });

  it("says what is indexed before anything is looked for", async () => {
    showPage("/search", searchRoutes, services());
    expect(await screen.findByText(/its beginning and its end, which the agent was given/)).toBeTruthy();
  });
});
