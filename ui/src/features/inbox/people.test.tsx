import { create } from "@bufbuild/protobuf";
import { createRoute } from "@tanstack/react-router";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { Sources } from "@/features/task/Outcome";
import { InboxItemSchema, InboxKind, InboxService, InboxState, type AnswerInboxItemRequest } from "@/gen/deckhand/v1/inbox_pb";
import { TaskSchema } from "@/gen/deckhand/v1/task_pb";
import { TaskPlanService } from "@/gen/deckhand/v1/task_plan_pb";
import { showPage } from "@/test/page";
import { inboxRoutes } from "./route";

Element.prototype.scrollIntoView = () => undefined;

// ready finds a button that can be pressed: answers cannot be given at once.
const ready = async (name: string) => {
  const found = await screen.findByRole<HTMLButtonElement>("button", { name });
  await waitFor(() => expect(found.matches(":disabled")).toBe(false));
  return found;
};

it("a question shows what follows from each option, and its attachments are saved as they are", async () => {
  const saved: string[] = [];
  const save = vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    saved.push(this.download);
  });
  const made = vi.fn((_: Blob) => "blob:1");
  Object.assign(URL, { createObjectURL: made, revokeObjectURL: vi.fn() });
  const item = create(InboxItemSchema, {
    id: "inbox_1", kind: InboxKind.QUESTION, state: InboxState.OPEN, taskId: "task_1", agentName: "coder", stepId: "step_1", tool: "request_input", mayAnswer: true,
    question: { text: "Which?", kind: "choice", choices: ["eu", "us"], options: [{ label: "eu", description: "Near the <b>users</b>" }, { label: "us" }] },
    attachments: [{ number: 1, path: "out/report.csv", sizeBytes: 5n, sha256: "ab" }, { number: 2, path: "gone.txt", problem: "it could not be read: the node did not respond" }],
  });
  const answers: AnswerInboxItemRequest[] = [];
  const reads: bigint[] = [];
  showPage("/inbox", inboxRoutes, (r) =>
    r.service(InboxService, {
      listInbox: () => ({ items: [item], counts: [{ kind: InboxKind.QUESTION, items: 1 }] }),
      getInboxItem: () => ({ item }),
      answerInboxItem: (req) => (answers.push(req), { item: { ...item, state: InboxState.ANSWERED, answer: "reply", reply: "eu" } }),
      readInboxAttachment: (req) => {
        reads.push(req.offset);
        return { data: new TextEncoder().encode(req.offset === 0n ? "a,b" : ",c"), nextOffset: req.offset === 0n ? 3n : 5n, sizeBytes: 5n, sha256: "ab" };
      },
    }),
  );
  const user = userEvent.setup();
  await screen.findByText("Near the <b>users</b>");
  await screen.findByText("it could not be read: the node did not respond");
  await user.click(await screen.findByRole("button", { name: "Download attachment 1" }));
  await waitFor(() => expect(saved).toEqual(["report.csv"]));
  expect(reads).toEqual([0n, 3n]);
  expect(made.mock.calls[0]![0].size).toBe(5);
  save.mockRestore();
  expect(screen.queryByRole("button", { name: "Download attachment 2" })).toBeNull();
});

it("a call is left out and the plan replaced, in the revision that was edited", async () => {
  const item = create(InboxItemSchema, {
    id: "inbox_1", kind: InboxKind.APPROVAL, state: InboxState.OPEN, taskId: "task_1", agentName: "coder", stepId: "step_1", tool: "shell_exec", arguments: { command: "migrate" }, shownDigest: "d", mayAnswer: true,
  });
  const answers: AnswerInboxItemRequest[] = [];
  showPage("/inbox", inboxRoutes, (r) => {
    r.service(InboxService, {
      listInbox: () => ({ items: [item], counts: [{ kind: InboxKind.APPROVAL, items: 1 }] }),
      getInboxItem: () => ({ item }),
      answerInboxItem: (req) => (answers.push(req), { item: { ...item, state: InboxState.ANSWERED, answer: "replan" } }),
    });
    r.service(TaskPlanService, {
      getTaskPlan: () => ({ plan: { taskId: "task_1", revision: 4, items: [{ id: "1", title: "Migrate", status: "in_progress", children: [{ id: "1.1", title: "Stop", status: "pending" }] }] } }),
    });
  });
  const user = userEvent.setup();
  await user.click(await ready("More answers"));
  await user.click(await ready("Replace the plan"));
  await user.type(await screen.findByLabelText("New item"), "Back up{Enter}");
  await user.click(await screen.findByRole("button", { name: "Move new 1 up" }));
  await user.selectOptions(screen.getByLabelText("Status of 1.1"), "skipped");
  await user.click(await ready("Replace the plan"));
  await waitFor(() => expect(answers).toHaveLength(1));
  const { answer } = answers[0]!;
  expect(answer.case).toBe("replan");
  if (answer.case !== "replan") return;
  expect(answer.value.revision).toBe(4);
  expect(answer.value.items.map((i) => [i.id, i.title, i.status, i.children.map((c) => [c.id, c.status])])).toEqual([
    ["", "Back up", "pending", []],
    ["1", "Migrate", "in_progress", [["1.1", "skipped"]]],
  ]);
});

it("sources are text, and links only where a browser may follow them", async () => {
  const task = create(TaskSchema, {
    id: "task_1",
    sources: [
      { kind: "url", reference: "https://example.com/a", title: "A" },
      { kind: "url", reference: "javascript:alert(1)" },
      { kind: "file", reference: "/workspace/<img src=x>" },
      { kind: "step", reference: "12" },
      { kind: "step", reference: "../x" },
    ],
  });
  const page = createRoute({ path: "/one", getParentRoute: () => shellRoute, component: () => <Sources task={task} /> });
  showPage("/one", [page], () => undefined);
  await screen.findByText("Sources, as the agent says");
  const list = screen.getByRole("heading", { name: "Sources, as the agent says" }).parentElement!;
  expect([...list.querySelectorAll("a")].map((a) => a.getAttribute("href"))).toEqual(["https://example.com/a", "/tasks/task_1?tab=steps&step=12"]);
  expect(list.querySelector("img")).toBeNull();
  expect(list.textContent).toContain("javascript:alert(1)");
});
