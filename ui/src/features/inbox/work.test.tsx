import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { InboxKind, InboxOrder, InboxService, InboxState, type InboxItem, type InboxItemSchema, type ListInboxRequest } from "@/gen/deckhand/v1/inbox_pb";
import { showPage } from "@/test/page";
import { inboxRoutes } from "./route";

Element.prototype.scrollIntoView = () => undefined;

type Item = Exclude<MessageInitShape<typeof InboxItemSchema>, InboxItem>;
type Calls = (itemId: string, answer: unknown, digest: string) => void;

const limit: Item = {
  id: "inbox_1",
  kind: InboxKind.LIMIT,
  state: InboxState.OPEN,
  taskId: "task_1",
  taskTitle: "Write the report",
  agentName: "coder",
  mayAnswer: true,
  stop: { title: "The run has reached its limit of iterations", limitName: "iterations", limitMost: 50n, limitOffer: 100n, waitingTasks: 1 },
};
const egress: Item = {
  id: "inbox_2",
  kind: InboxKind.EGRESS,
  state: InboxState.OPEN,
  agentId: "agent_1",
  agentName: "coder",
  mayAnswer: true,
  shownDigest: "d2",
  stop: {
    title: "A command was refused a connection to api.example.com:443",
    host: "api.example.com",
    port: 443,
    tool: "shell_exec",
    change: { version: 3, rule: "api.example.com", diff: "--- coder.md\n+++ coder.md\n@@ -1,3 +1,5 @@\n ---\n name: coder\n+egress:\n+  allow: [\"api.example.com\"]\n ---\n" },
  },
};
const budget: Item = {
  id: "inbox_3",
  kind: InboxKind.BUDGET,
  state: InboxState.OPEN,
  mayAnswer: true,
  stop: { title: "The budget is used up", scope: "organisation", every: "day", period: "2026-11-26", limitMicros: 10_000_000n, spentMicros: 9_900_000n, amountMicros: 500_000n, offerMicros: 20_000_000n, waitingTasks: 2 },
};
const call = (n: number, command: string, more: Partial<Item> = {}): Item => ({
  id: `call_${n}`,
  kind: InboxKind.APPROVAL,
  state: InboxState.OPEN,
  taskId: `task_${n}`,
  taskTitle: `Task ${n}`,
  agentId: "agent_1",
  agentName: "coder",
  stepId: `step_${n}`,
  tool: "http_post",
  title: `http_post ${command}`,
  arguments: { url: "https://api.example.com", body: command },
  decision: { why: "the persona asks", folder: "/workspace" },
  alikeKey: "k",
  alikeCount: 3,
  shownDigest: `digest-${n}`,
  mayAnswer: true,
  ...more,
});

const services =
  (items: Item[], calls: Calls = vi.fn(), asked: (r: ListInboxRequest) => void = () => undefined): Parameters<typeof showPage>[2] =>
  (r) => {
    r.service(InboxService, {
      listInbox: (req) => {
        asked(req);
        const counts = [...new Set(items.map((i) => i.kind))].map((kind) => ({ kind, items: items.filter((i) => i.kind === kind).length }));
        return { items: items.map((i) => (i.stop?.change ? { ...i, stop: { ...i.stop, change: undefined }, shownDigest: "" } : i)), counts };
      },
      getInboxItem: (req) => ({ item: items.find((i) => i.id === req.itemId) }),
      answerInboxItem: (req) => (calls(req.itemId, req.answer, req.shownDigest), {}),
    });
    r.service(AgentService, { listAgents: () => ({ agents: [{ id: "agent_1", name: "coder" }] }) });
  };

// press presses a button at the moment it can be: answers are refused again as soon as
// anything of the card changes.
async function press(name: string | RegExp) {
  const button = await screen.findByRole("button", { name });
  await waitFor(() => expect(button.matches(":disabled")).toBe(false));
  fireEvent.click(button);
}

// What stops work says what it is, and its button makes the work go on.
describe("work that stopped", () => {
  it("at a limit gets more, as much as the button says", async () => {
    const calls = vi.fn();
    const { container } = showPage("/inbox", inboxRoutes, services([limit], calls));
    await screen.findByRole("button", { name: "Let it have 50 more iterations" });
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    const user = userEvent.setup();
    const field = screen.getByLabelText("New limit (iterations)");
    await user.clear(field);
    await user.type(field, "50");
    expect(screen.getByText("Enter more than 50.")).toBeTruthy();
    await user.clear(field);
    await user.type(field, "150");
    await press("Let it have 100 more iterations");
    await waitFor(() => expect(calls.mock.calls[0]?.slice(0, 2)).toMatchObject(["inbox_1", { case: "raise", value: { limit: 150n } }]));
  });

  it("at a budget is raised in dollars", async () => {
    const calls = vi.fn();
    showPage("/inbox", inboxRoutes, services([budget], calls));
    expect(await screen.findByText("2 paused tasks wait for it.")).toBeTruthy();
    await press("Raise the budget to $20.00");
    await waitFor(() => expect(calls.mock.calls[0]?.[1]).toMatchObject({ case: "raise", value: { limit: 20_000_000n } }));
  });

  it("at a refused host shows the change of the persona before it is applied", async () => {
    const calls = vi.fn();
    showPage("/inbox", inboxRoutes, services([egress], calls));
    const diff = await screen.findByTestId("diff");
    expect(diff.textContent).toContain('allow: ["api.example.com"]');
    await press("Allow api.example.com for coder");
    await waitFor(() => expect(calls.mock.calls[0]).toMatchObject(["inbox_2", { case: "allow" }, "d2"]));
  });

  it("is for those who may answer", async () => {
    showPage("/inbox", inboxRoutes, services([{ ...budget, mayAnswer: false }]), "basic");
    expect(await screen.findByText(/cannot answer\. Ask an admin/)).toBeTruthy();
    expect(screen.queryByRole("button", { name: /Raise/ })).toBeNull();
  });
});

describe("the inbox", () => {
  it("is filtered in the address, and counts by kind", async () => {
    const asked: ListInboxRequest[] = [];
    const { history } = showPage("/inbox", inboxRoutes, services([limit, budget], undefined, (r) => asked.push(r)));
    const chip = await screen.findByRole("button", { name: "Budget used up 1" });
    expect(asked[0]?.order).toBe(InboxOrder.TIME_LEFT);
    expect(document.title).toBe("(2) Inbox · Deckhand");
    await userEvent.setup().click(chip);
    await waitFor(() => expect(asked.at(-1)?.kinds).toEqual([InboxKind.BUDGET]));
    expect(history.location.search).toContain("budget");
    await userEvent.setup().selectOptions(screen.getByLabelText("Whose"), "mine");
    await waitFor(() => expect(asked.at(-1)?.mine).toBe(true));
    await press("Clear");
    // What was shown before is still known, and not asked for again.
    await waitFor(() => expect(chip.getAttribute("aria-pressed")).toBe("false"));
    expect(history.location.search).not.toMatch(/kind|mine/);
    expect(screen.getByLabelText<HTMLSelectElement>("Whose").value).toBe("");
  });

  it("decides calls that look alike after one look at what differs", async () => {
    const calls = vi.fn();
    const items = [call(1, "one"), limit, call(2, "two\u202e"), call(3, "three", { dangerous: true })];
    showPage("/inbox?item=inbox_1", inboxRoutes, services(items, calls));
    const list = await screen.findByRole("navigation", { name: "Items" });
    // The group is one row, at the place of its first call.
    expect(within(list).getByText("3 like this")).toBeTruthy();
    expect(within(list).queryByText("http_post three")).toBeNull();
    await userEvent.setup().click(within(list).getByText("http_post one"));
    await press("Decide 3 together");
    const others = await screen.findByRole("region", { name: "The others" });
    expect(within(others).getByText("/body")).toBeTruthy();
    expect(within(others).queryByText("/url")).toBeNull();
    expect(others.textContent).toContain("U+202E");
    expect(within(await screen.findByRole("region", { name: "Left out" })).getByText("Dangerous calls are decided one by one.")).toBeTruthy();
    await press("Approve all 2");
    await waitFor(() => expect(calls).toHaveBeenCalledTimes(2));
    expect(calls.mock.calls.map((c) => [c[0], c[2]])).toEqual([
      ["call_1", "digest-1"],
      ["call_2", "digest-2"],
    ]);
  });

  it("selects with x, and looks with Shift+A", async () => {
    showPage("/inbox?item=call_1", inboxRoutes, services([call(1, "one", { alikeKey: "" }), call(2, "two", { alikeKey: "" })]));
    const user = userEvent.setup();
    await screen.findByRole("heading", { level: 2 });
    await user.keyboard("x");
    expect(await screen.findByText("1 selected")).toBeTruthy();
    await user.keyboard("jx");
    expect(await screen.findByText("2 selected")).toBeTruthy();
    await user.keyboard("{Shift>}A{/Shift}");
    expect(await screen.findByText("2 calls together")).toBeTruthy();
  });
});
