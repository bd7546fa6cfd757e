import { create } from "@bufbuild/protobuf";
import { createRoute } from "@tanstack/react-router";
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { FeedbackService, FeedbackSubject, FeedbackVerdict } from "@/gen/deckhand/v1/feedback_pb";
import { StepSchema, StepState } from "@/gen/deckhand/v1/step_pb";
import { JobSchema, JobState, TaskService } from "@/gen/deckhand/v1/task_pb";
import { showPage } from "@/test/page";
import { parseDetailSearch } from "./search";
import { Steps } from "./Steps";
import { StepArguments } from "./tools";

// What jsdom has not: elements with a size, of which a list draws a window.
Object.defineProperty(Element.prototype, "clientHeight", { configurable: true, value: 600 });
Object.defineProperty(Element.prototype, "clientWidth", { configurable: true, value: 400 });
HTMLElement.prototype.scrollTo = function (this: HTMLElement, to?: ScrollToOptions | number) {
  if (typeof to === "object") this.scrollTop = to.top ?? 0;
  queueMicrotask(() => this.dispatchEvent(new Event("scroll")));
};

const step = (number: number) => create(StepSchema, { id: `step_${number}`, number, tool: `tool_${number}`, arguments: { path: `file ${number}` } });

const steps = createRoute({
  getParentRoute: () => shellRoute,
  path: "/tasks/$task",
  validateSearch: parseDetailSearch,
  component: function Page() {
    const { step: number, line } = steps.useSearch();
    return <Steps taskId="task_1" step={number} line={line} />;
  },
});
const one = createRoute({ getParentRoute: () => shellRoute, path: "/one", component: () => <StepArguments taskId="task_1" stepId="step_4711" /> });

it("draws a window of 5,000 steps, with what each is about, and reaches the last one", async () => {
  const asked = vi.fn();
  showPage("/tasks/task_1?tab=steps&step=12", [steps], (r) =>
    r.service(TaskService, {
      listJobs: () => ({ jobs: [] }),
      listSteps: (req) => {
        asked(req.stepId, req.brief);
        if (req.stepId) return { steps: [step(Number(req.stepId.slice(5)))] };
        const first = Number(req.pageToken || "1");
        return { steps: Array.from({ length: 500 }, (_, i) => step(first + i)), nextPageToken: first + 500 <= 5_000 ? String(first + 500) : "" };
      },
    }),
  );
  const list = await screen.findByRole("listbox", { name: "Steps" });
  expect((await screen.findByRole("option", { selected: true })).textContent).toContain("12tool_12 file 12");
  await vi.waitFor(() => expect(asked.mock.calls.filter(([id, brief]) => !id && brief)).toHaveLength(10));
  list.focus();
  await userEvent.keyboard("{End}");
  await vi.waitFor(() => expect(list.getAttribute("aria-activedescendant")).toBe("step-5000"));
  expect(await screen.findByRole("region", { name: "Step 5000" })).toBeTruthy();
  expect(document.querySelectorAll("[role=option]").length).toBeLessThan(400);
  await userEvent.keyboard("k");
  expect(await screen.findByRole("region", { name: "Step 4999" })).toBeTruthy();
  expect(asked).not.toHaveBeenCalledWith("step_1", expect.anything());
});

it("shows a command that failed as such", async () => {
  const broken = create(StepSchema, { id: "step_1", number: 1, tool: "shell_exec", state: StepState.SUCCEEDED, arguments: { command: "go test ./..." }, outcome: { exit_code: 1 } });
  showPage("/tasks/task_1?tab=steps", [steps], (r) => r.service(TaskService, { listJobs: () => ({ jobs: [] }), listSteps: () => ({ steps: [broken] }) }));
  const row = await screen.findByRole("option");
  expect(row.textContent).toBe("1$ go test ./...exit 1");
});

it("leads from a step to the inbox item about it", async () => {
  const asked = create(StepSchema, { id: "step_1", number: 1, tool: "file_write", state: StepState.WAITING, approvalId: "inb_7" });
  showPage("/tasks/task_1?tab=steps", [steps], (r) => r.service(TaskService, { listJobs: () => ({ jobs: [] }), listSteps: () => ({ steps: [asked] }) }));
  expect((await screen.findByRole("link", { name: "Show in the inbox" })).getAttribute("href")).toContain("/inbox?item=inb_7");
});

it("leads from a search of documents to the passages that it found", async () => {
  const found = create(StepSchema, {
    id: "step_1", number: 1, tool: "rag_query", state: StepState.SUCCEEDED,
    outcome: { passages: 1, citations: [{ passage: "42", citation: "handbook: leave.md:5" }] },
  });
  showPage("/tasks/task_1?tab=steps", [steps], (r) => r.service(TaskService, { listJobs: () => ({ jobs: [] }), listSteps: () => ({ steps: [found] }) }));
  expect((await screen.findByRole("link", { name: "handbook: leave.md:5" })).getAttribute("href")).toContain("/knowledge?passage=");
});

it("lists the commands in the background, with what they use, and kills one", async () => {
  const killed = vi.fn();
  showPage("/tasks/task_1?tab=steps", [steps], (r) =>
    r.service(TaskService, {
      listSteps: () => ({ steps: [step(1), step(2)] }),
      listJobs: () => ({
        jobs: [
          create(JobSchema, {
            id: "job_1", stepId: "step_1", command: "serve --port 8080", state: JobState.RUNNING,
            usage: { cpuTime: { seconds: 3n }, memoryBytes: 5n << 20n, processes: 2 },
          }),
          create(JobSchema, { id: "job_2", stepId: "step_2", command: "make", state: JobState.ENDED, outcome: { end_reason: "exited", exit_code: 2 } }),
        ],
      }),
      killJob: (req) => (killed(req.jobId), { processesLeft: 0 }),
    }),
  );
  expect(await screen.findByText(/CPU · .* memory/)).toBeTruthy();
  expect(screen.getByText("exit status 2")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Kill job_1" }));
  await userEvent.click(screen.getByRole("button", { name: "Kill" }));
  await vi.waitFor(() => expect(killed).toHaveBeenCalledWith("job_1"));
});

it("asks for one step alone where only its arguments are shown", async () => {
  const asked = vi.fn();
  showPage("/one", [one], (r) =>
    r.service(TaskService, { listSteps: (req) => (asked(req.stepId), { steps: [step(4711)] }) }),
  );
  expect(await screen.findByText(/file 4711/)).toBeTruthy();
  expect(asked).toHaveBeenCalledWith("step_4711");
});

it("takes a verdict on a step that has ended", async () => {
  const given = vi.fn();
  const ended = create(StepSchema, { id: "step_1", number: 1, tool: "shell_exec", startedAt: { seconds: 1n }, finishedAt: { seconds: 2n } });
  showPage("/tasks/task_1?tab=steps&step=1", [steps], (r) => {
    r.service(TaskService, { listJobs: () => ({ jobs: [] }), listSteps: () => ({ steps: [ended] }) });
    r.service(FeedbackService, { giveFeedback: (req) => (given(req.subject, req.subjectId, req.verdict), {}) });
  });
  await userEvent.click(await screen.findByRole("button", { name: "Bad" }));
  await vi.waitFor(() => expect(given).toHaveBeenCalledWith(FeedbackSubject.STEP, "step_1", FeedbackVerdict.REJECT));
});
