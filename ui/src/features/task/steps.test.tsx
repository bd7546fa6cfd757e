import { create } from "@bufbuild/protobuf";
import { createRoute } from "@tanstack/react-router";
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { StepSchema } from "@/gen/deckhand/v1/step_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
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

it("asks for one step alone where only its arguments are shown", async () => {
  const asked = vi.fn();
  showPage("/one", [one], (r) =>
    r.service(TaskService, { listSteps: (req) => (asked(req.stepId), { steps: [step(4711)] }) }),
  );
  expect(await screen.findByText(/file 4711/)).toBeTruthy();
  expect(asked).toHaveBeenCalledWith("step_4711");
});
