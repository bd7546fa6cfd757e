import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import axe from "axe-core";
import { describe, expect, it } from "vitest";
import { InboxItemSchema, InboxKind, InboxService, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { StepState, ToolCategory } from "@/gen/deckhand/v1/step_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { inboxRoutes } from "./route";

// What jsdom, which lays nothing out, does not have.
Element.prototype.scrollIntoView = () => undefined;

type Init = Exclude<MessageInitShape<typeof InboxItemSchema>, InboxItem>;

const change = { kind: "edit", path: "a.txt", before: { type: "file", lines: 1 }, after: { type: "file", lines: 1 }, added: 1, deleted: 1, unified: "@@ -1 +1 @@\n-a\n+b\n" };

// One item of each kind of call and of each other kind.
const kinds: [string, Init][] = [
  ["a command", { tool: "shell_exec", arguments: { command: "ls" }, sentence: "Run a command in the jail of coder on web-1" }],
  ["a dangerous command", { tool: "shell_exec", arguments: { command: "rm -rf /" }, decision: { source: "danger", rule: "dangerous:wipe", dangers: [{ kind: "wipe", what: "deletes", line: 1, command: "rm -rf /" }] } }],
  ["a terminal", { tool: "terminal_open", arguments: { command: "psql" } }],
  ["typing", { tool: "terminal_write", arguments: { job: "job_1", text: "drop" }, decision: { program: "psql" } }],
  ["a write", { tool: "file_write", arguments: { path: "a.txt", content: "b" }, changes: [{ ...change, kind: "create", before: undefined }] }],
  ["an append", { tool: "file_append", arguments: { path: "a.txt", content: "b" }, changes: [{ ...change, kind: "append" }] }],
  ["an edit", { tool: "file_edit", arguments: { path: "a.txt", old_string: "a", new_string: "b" }, changes: [change] }],
  ["a patch", { tool: "apply_patch", arguments: { input: "*** Begin Patch" }, changes: [change] }],
  ["a deletion", { tool: "file_delete", category: ToolCategory.DANGEROUS, arguments: { path: "old" }, changes: [{ kind: "delete", path: "old", before: { type: "file" }, files: 1 }] }],
  ["a move", { tool: "file_move", arguments: { from: "a", to: "b" }, changes: [{ kind: "move", path: "a", to: "b", before: { type: "file" } }] }],
  ["a POST", { tool: "http_post", arguments: { url: "https://x.example/" }, decision: { request: { method: "POST", host: "x.example" } } }],
  ["a DELETE", { tool: "http_delete", category: ToolCategory.DANGEROUS, arguments: { url: "https://x.example/" }, decision: { irreversible: "the effect of the request", request: { method: "DELETE", host: "x.example" } } }],
  ["a push", { tool: "git_push", arguments: { ref: "main" }, preview: "1a2b" }],
  ["a pull request", { tool: "pull_request_open", arguments: { repository: "a/b", head: "x", base: "main", title: "t", body: "b" } }],
  ["a comment", { tool: "pull_request_comment", arguments: { repository: "a/b", number: 7, body: "b" } }],
  ["a server's tool", { tool: "mcp__sums__add", arguments: { a: 1 }, decision: { source: "definition", definition: "{}" } }],
  ["a delegation", { tool: "delegate", arguments: { agent: "tester", goal: "test" } }],
  ["a question", { kind: InboxKind.QUESTION, tool: "request_input", question: { text: "## Which?", kind: "choice", choices: ["a", "b"], defaultAnswer: "a" }, onExpiry: "default" }],
  ["an unknown outcome", { kind: InboxKind.UNKNOWN, tool: "shell_exec", arguments: { command: "make deploy" }, evidence: "one\ntwo", expiresAt: undefined, onExpiry: "" }],
  ["a review", { kind: InboxKind.REVIEW, stepId: "", review: { summary: "I did it.", files: 0 }, decision: undefined, expiresAt: undefined, onExpiry: "" }],
  ["an escalation", { kind: InboxKind.ESCALATION, stepId: "", why: "Failed 4 times in a row.", decision: undefined, escalation: { remedies: ["retry"], failures: [{ message: "HTTP 500" }] }, expiresAt: undefined, onExpiry: "" }],
];

const base: Init = {
  id: "inbox_1",
  kind: InboxKind.APPROVAL,
  state: InboxState.OPEN,
  taskId: "task_1",
  taskTitle: "Write the guide",
  agentName: "coder",
  stepId: "step_1",
  stepNumber: 3,
  sentence: "Do something",
  why: "the persona asks",
  reasoning: "I **need** this.",
  shownDigest: "digest",
  expiresAt: { seconds: BigInt(Math.floor(Date.now() / 1000) + 300), nanos: 0 },
  onExpiry: "reject",
  context: { goal: "Write the guide", planItem: "Write it", planDone: 1, planItems: 3, asked: 4, similarApproved: 6, similarRejected: 1, similarBy: "shape", lastRejection: { by: "bob", reason: "not on a Friday" } },
};

// The parts of every card, in their order.
const parts = ["Risk", "The call", "Why you are asked", "Why the agent wants it", "Before", "Where", "If nobody answers"];

describe("every card", () => {
  it.each(kinds)("of %s has all of its parts", async (_, init) => {
    const decision = { source: "persona", nodeId: "node_1", nodeName: "web-1", folder: "/workspace", user: "uid 1000", timeoutSeconds: 60, hosts: [], ...init.decision };
    const make = (more: Init) => create(InboxItemSchema, { ...base, ...init, decision: "decision" in init && !init.decision ? undefined : decision, ...more } as Init);
    let item = make({});
    const page = showPage("/inbox", inboxRoutes, (r) => {
      r.service(InboxService, { listInbox: () => ({ items: [item] }), getInboxItem: () => ({ item }) });
      r.service(WorkspaceService, { diffChanges: async function* () {} });
      r.service(TaskService, { listSteps: () => ({ steps: [] }) });
    });
    const card = await screen.findByRole("region", { name: "Item" });
    const heading = await within(card).findByRole("heading", { level: 2 });
    expect(heading.textContent).toBe(item.sentence);
    const regions = within(card).getAllByRole("region").map((s) => s.getAttribute("aria-label"));
    expect(regions.filter((name) => parts.includes(name!)), "in this order").toEqual(parts);
    for (const name of parts) expect(within(card).getByRole("region", { name }).textContent?.trim(), name).not.toBe("");
    expect(within(card).getByRole("region", { name: "Before" }).textContent).toContain("4th time this task asks.");
    expect(within(card).getByRole("region", { name: "Why the agent wants it" }).textContent).toContain("Write it");
    const answers = within(card).getByRole("group", { name: "Answers" });
    const buttons = within(answers).getAllByRole("button").filter((b) => !/More answers/.test(b.textContent ?? ""));
    expect(buttons.length).toBeGreaterThan(1);
    for (const b of buttons) expect(b.nextElementSibling?.textContent, `what follows from ${b.textContent}`).not.toBe("");
    expect((await axe.run(card, { rules: { region: { enabled: false } } })).violations.map((v) => `${v.id}: ${v.nodes[0]?.html}`)).toEqual([]);

    item = make({ state: InboxState.ANSWERED, answer: "approve", answeredBy: "bob", outcome: item.stepId ? { state: StepState.SUCCEEDED } : undefined });
    await page.queries.invalidateQueries();
    await waitFor(() => expect(within(card).getByRole("region", { name: "What came of it" }).textContent).toContain("by bob"));
  });
});

describe("a question", () => {
  it("is Markdown, names its default with the time, and is answered by a number", async () => {
    const answers: unknown[] = [];
    const expiresAt = { seconds: BigInt(Math.floor(Date.now() / 1000) + 300), nanos: 0 };
    const item = create(InboxItemSchema, { ...base, ...kinds.find(([name]) => name === "a question")![1], expiresAt } as Init);
    showPage("/inbox", inboxRoutes, (r) =>
      r.service(InboxService, { listInbox: () => ({ items: [item] }), getInboxItem: () => ({ item }), answerInboxItem: (req) => (answers.push(req.answer), {}) }),
    );
    expect(await screen.findByRole("heading", { name: "Which?" })).toBeTruthy();
    expect(screen.getByRole("region", { name: "If nobody answers" }).textContent).toMatch(/If nobody answers by \d.*: the answer is a \(in [45] min/);
    const b = await waitFor(() => {
      const found = screen.getByRole("button", { name: "b" });
      expect(found.matches(":disabled")).toBe(false);
      return found;
    });
    expect(b.textContent).toBe("2b");
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "2", bubbles: true }));
    await waitFor(() => expect(answers).toMatchObject([{ case: "reply", value: { text: "b" } }]));
  });

  it("without a default says that the agent is told that nobody answered", async () => {
    const item = create(InboxItemSchema, { ...base, kind: InboxKind.QUESTION, question: { text: "What?", kind: "text" }, onExpiry: "default" } as Init);
    showPage("/inbox", inboxRoutes, (r) => r.service(InboxService, { listInbox: () => ({ items: [item] }), getInboxItem: () => ({ item }) }));
    await waitFor(() => expect(screen.getByRole("region", { name: "If nobody answers" }).textContent).toContain("the agent is told that nobody did"));
  });
});
