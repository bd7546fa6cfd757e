import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { InboxKind, InboxService, InboxState, type InboxItemSchema } from "@/gen/deckhand/v1/inbox_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { ChangeKind, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { inboxRoutes } from "./route";

// What jsdom, which lays nothing out, does not have.
Element.prototype.scrollIntoView = () => undefined;

const review = {
  id: "inbox_1",
  kind: InboxKind.REVIEW,
  state: InboxState.OPEN,
  taskId: "task_1",
  taskTitle: "Write the report",
  agentName: "coder",
  mayAnswer: true,
  review: {
    summary: "I wrote it.",
    files: 2,
    paths: ["a.txt", "b.txt"],
    deferred: [{ stepId: "step_1", number: 3, tool: "http_post", preview: "POST https://hooks.example.org" }],
    hosts: [{ host: "docs.example.org", requests: 2n, sentBytes: 10n, receivedBytes: 20n }],
  },
};
const escalation = {
  id: "inbox_2",
  kind: InboxKind.ESCALATION,
  state: InboxState.OPEN,
  taskId: "task_2",
  taskTitle: "Move the tables",
  agentName: "dba",
  why: "it failed 4 times in a row",
  escalation: { remedies: ["memory"] },
};
const offered = {
  id: "inbox_3",
  kind: InboxKind.APPROVAL,
  state: InboxState.OPEN,
  taskId: "task_3",
  taskTitle: "Docs",
  agentName: "writer",
  tool: "file_write",
  stepId: "step_9",
  arguments: { path: "a.md", content: "x" },
  shownDigest: "digest-3",
  offer: { shape: "file_write(content, path=/workspace/docs/*)", approvals: 10 },
};

const steps = [{ id: "step_1", number: 3, tool: "http_post", arguments: { url: "https://hooks.example.org", body: "all of it" } }];

type Calls = (itemId: string, answer: unknown, reason: string, digest: string) => void;

const services =
  (items: MessageInitShape<typeof InboxItemSchema>[], calls: Calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) => {
    r.service(InboxService, {
      listInbox: () => ({ items }),
      getInboxItem: (req) => ({ item: items.find((i) => i.id === req.itemId) }),
      answerInboxItem: (req) => (calls(req.itemId, req.answer, req.reason, req.shownDigest), {}),
    });
    r.service(WorkspaceService, {
      diffChanges: async function* () {
        yield { change: { path: "a.txt", kind: ChangeKind.MODIFIED }, unified: new TextEncoder().encode("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n-one\n+two\n+three\n"), addedLines: 2, deletedLines: 1 };
        yield { change: { path: "b.txt", kind: ChangeKind.ADDED }, unified: new TextEncoder().encode("--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n"), addedLines: 1 };
      },
    });
    r.service(TaskService, { listSteps: () => ({ steps }) });
  };

// press waits until a button can be pressed, as a person does, and presses it at that
// moment: answers are refused again as soon as anything of the card changes.
async function press(name: string) {
  const button = await screen.findByRole("button", { name });
  await waitFor(() => expect(button.matches(":disabled")).toBe(false));
  fireEvent.click(button);
}

// A review shows what was done and what is deferred, and takes its three
// answers.
describe("a review", () => {
  it("shows what leaves when it is accepted", async () => {
    const calls = vi.fn();
    const { container } = showPage("/inbox", inboxRoutes, services([review], calls));
    expect(await screen.findByText("I wrote it.")).toBeTruthy();
    expect(screen.getByText("1 pending request")).toBeTruthy();
    expect(await screen.findByText("https://hooks.example.org")).toBeTruthy();
    expect(screen.getByLabelText("Body").textContent).toBe("all of it");
    expect(screen.getByText("2 files changed")).toBeTruthy();
    expect(screen.getByText(/: 2 requests, 10 B sent/)).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await press("Accept: 2 files stay, 1 request is sent");
    await waitFor(() => expect(calls.mock.calls[0]?.slice(0, 2)).toMatchObject(["inbox_1", { case: "accept" }]));
  });

  it("is accepted without a file and without a request, and the button says so", async () => {
    const calls = vi.fn();
    showPage("/inbox", inboxRoutes, services([review], calls));
    const user = userEvent.setup();
    await user.click(await screen.findByLabelText("Keep b.txt"));
    await user.click(screen.getByLabelText(/^Send the request of step/));
    expect(screen.getByText(/The others are restored to what they were before the task\./)).toBeTruthy();
    // The card has changed under the pointer: it takes a click when it stands still again.
    const accept = screen.getByRole("button", { name: "Accept: 1 of 2 files stay, 0 of 1 requests are sent" });
    await waitFor(() => {
      fireEvent.click(accept);
      expect(calls.mock.calls[0]?.[1]).toMatchObject({ case: "accept", value: { withoutPaths: ["b.txt"], withoutStepIds: ["step_1"] } });
    });
  });

  it("is sent back in words, and rejected with a reason", async () => {
    const calls = vi.fn();
    showPage("/inbox", inboxRoutes, services([review], calls));
    const user = userEvent.setup();
    // Comments on lines become the text.
    await user.click(await screen.findByText("three"));
    expect(screen.getByLabelText<HTMLInputElement>("Line").value).toBe("2");
    await user.type(screen.getByLabelText("Comment"), "why three?");
    await user.click(screen.getByRole("button", { name: "Add comment" }));
    await user.click(screen.getByLabelText("Viewed b.txt"));
    expect(screen.queryByLabelText("Changes of b.txt")).toBeNull();
    await press("Ask for changes");
    const text = screen.getByLabelText<HTMLTextAreaElement>(/What should change/);
    expect(text.value).toBe("a.txt:2: why three?");
    await user.type(text, "\nthe tests are missing");
    await press("Ask for changes");
    await waitFor(() => expect(calls.mock.calls[0]?.[1]).toMatchObject({ case: "changes", value: { text: "a.txt:2: why three?\nthe tests are missing" } }));
    await press("Reject");
    await user.type(screen.getByLabelText(/Reason/), "not like this");
    await press("Reject");
    await waitFor(() => expect(calls.mock.calls[1]?.slice(1, 3)).toMatchObject([{ case: "reject" }, "not like this"]));
  });
});

// An escalated task is retried with what helps, or closed.
describe("an escalated task", () => {
  it("is retried with more memory, or closed", async () => {
    const calls = vi.fn();
    showPage("/inbox", inboxRoutes, services([escalation], calls));
    const user = userEvent.setup();
    expect(within(await screen.findByRole("region", { name: "The call" })).getByText("it failed 4 times in a row")).toBeTruthy();
    await press("Retry");
    expect(screen.queryByLabelText("Model")).toBeNull();
    await user.type(screen.getByLabelText(/Memory/), "8");
    await press("Retry the task");
    await waitFor(() => expect(calls.mock.calls[0]?.[1]).toMatchObject({ case: "retry", value: { override: { memoryBytes: 8589934592n } } }));
    await press("Close the task");
    await waitFor(() => expect(calls.mock.calls[1]?.[1]).toMatchObject({ case: "close" }));
  });
});

// A provider's outage is not a lack of memory.
describe("a task that its provider stopped", () => {
  it("names the provider and leads to its state, and offers another model and no memory", async () => {
    const item = {
      ...escalation,
      escalation: { provider: "anthropic", model: "claude", remedies: ["retry", "model"], failures: [{ message: "unavailable (HTTP 500)", errorCode: "AGENT_014" }] },
    };
    showPage("/inbox", inboxRoutes, services([item]));
    const call = await screen.findByRole("region", { name: "The call" });
    expect(within(call).getByText("anthropic/claude")).toBeTruthy();
    expect(within(call).getByText("unavailable (HTTP 500)")).toBeTruthy();
    expect(within(call).getByRole("link", { name: "See the state of the providers" }).getAttribute("href")).toBe("/providers");
    await press("Retry");
    expect(await screen.findByLabelText("Model")).toBeTruthy();
    expect(screen.queryByLabelText(/Memory/)).toBeNull();
    expect(screen.queryByLabelText(/Node/)).toBeNull();
  });
});

// Nobody knows whether the call took effect.
describe("a call whose end is not known", () => {
  it("has its newest line first, and says that another run may happen twice", async () => {
    const item = {
      id: "inbox_4",
      kind: InboxKind.UNKNOWN,
      state: InboxState.OPEN,
      taskId: "task_4",
      agentName: "ops",
      tool: "shell_exec",
      stepId: "",
      arguments: { command: "make deploy" },
      evidence: Array.from({ length: 40 }, (_, i) => `line ${i + 1}`).join("\n"),
      mayAnswer: true,
    };
    showPage("/inbox", inboxRoutes, services([item]));
    const evidence = await screen.findByRole("region", { name: "Evidence" });
    const text = evidence.textContent ?? "";
    expect(text.indexOf("line 40")).toBeGreaterThan(0);
    expect(text.indexOf("line 40")).toBeLessThan(text.indexOf("line 21"));
    const again = await screen.findByRole("button", { name: "Run it again" });
    expect(again.nextElementSibling?.textContent).toBe("Runs once more. It may happen twice.");
    const answers = within(screen.getByRole("group", { name: "Answers" })).getAllByRole("button");
    expect(answers[0]).not.toBe(again);
  });
});

// To be asked no more is offered, and never assumed.
describe("an offer", () => {
  it("is taken as a rule of its shape", async () => {
    const calls = vi.fn();
    showPage("/inbox", inboxRoutes, services([offered], calls));
    await press("Stop asking about these");
    expect(calls).not.toHaveBeenCalled();
    await press("Approve and allow");
    await waitFor(() => expect(calls.mock.calls[0]?.[1]).toMatchObject({ case: "approve", value: { always: { scope: "shape" } } }));
    expect(calls.mock.calls[0]?.[3]).toBe("digest-3");
  });
});
