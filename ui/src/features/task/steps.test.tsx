import { create } from "@bufbuild/protobuf";
import { createRoute } from "@tanstack/react-router";
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { StepSchema } from "@/gen/deckhand/v1/step_pb";
import { JobSchema, JobState, TaskService } from "@/gen/deckhand/v1/task_pb";
import { showPage } from "@/test/page";
import { Steps } from "./Steps";
import { StepArguments } from "./tools";

const step = (number: number) => create(StepSchema, { id: `step_${number}`, number, tool: `tool_${number}`, arguments: { path: `file ${number}` } });

const steps = createRoute({ getParentRoute: () => shellRoute, path: "/steps", component: () => <Steps taskId="task_1" /> });
const one = createRoute({ getParentRoute: () => shellRoute, path: "/one", component: () => <StepArguments taskId="task_1" stepId="step_4711" /> });

it("shows a task's steps page by page", async () => {
  showPage("/steps", [steps], (r) =>
    r.service(TaskService, {
      listSteps: (req) => (req.pageToken ? { steps: [step(3)] } : { steps: [step(1), step(2)], nextPageToken: "2" }),
    }),
  );
  expect(await screen.findAllByText("tool_2")).toHaveLength(2); // in the list, and chosen
  expect(screen.queryByText("tool_3")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Later steps" }));
  expect(await screen.findAllByText("tool_3")).toHaveLength(2);
  expect(screen.queryByRole("button", { name: "Later steps" })).toBeNull();
});

it("lists the commands in the background, with what they use, and kills one", async () => {
  const killed = vi.fn();
  showPage("/steps", [steps], (r) =>
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
