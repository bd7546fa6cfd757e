import { createRoute } from "@tanstack/react-router";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { FeedbackService, FeedbackSubject, FeedbackVerdict } from "@/gen/deckhand/v1/feedback_pb";
import { TaskPlanService } from "@/gen/deckhand/v1/task_plan_pb";
import { showPage } from "@/test/page";
import { PlanEditor } from "./PlanEditor";

it("a plan is changed in place, in the revision that is shown", async () => {
  const calls = vi.fn();
  const page = createRoute({ path: "/plan", getParentRoute: () => shellRoute, component: () => <PlanEditor taskId="task_1" plan={undefined} ended={false} /> });
  showPage("/plan", [page], (r) =>
    r.service(TaskPlanService, {
      getTaskPlan: () => ({
        plan: { taskId: "task_1", revision: 4, items: [{ id: "1", title: "Look", status: "done", children: [{ id: "1.1", title: "Read", status: "pending" }] }, { id: "2", title: "Mend", status: "pending" }] },
      }),
      editTaskPlan: (req) => (calls(req.revision, req.change.case, req.change.value), {}),
    }),
  );
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Edit plan" }));
  await user.selectOptions(await screen.findByLabelText("Status of 1.1"), "skipped");
  await waitFor(() => expect(calls).toHaveBeenLastCalledWith(4, "mark", expect.objectContaining({ id: "1.1", status: "skipped" })));
  await waitFor(() => expect(screen.getByRole<HTMLButtonElement>("button", { name: "Move 2 up" }).disabled).toBe(false));
  await user.click(screen.getByRole("button", { name: "Move 2 up" }));
  await waitFor(() => expect(calls).toHaveBeenLastCalledWith(4, "move", expect.objectContaining({ id: "2", parent: "", before: "1" })));
  await waitFor(() => expect(screen.getByRole<HTMLButtonElement>("button", { name: "Remove 1" }).disabled).toBe(false));
  await user.click(screen.getByRole("button", { name: "Remove 1" }));
  await waitFor(() => expect(calls).toHaveBeenLastCalledWith(4, "remove", expect.objectContaining({ id: "1" })));
  await user.type(screen.getByLabelText("New item"), "Test it");
  await waitFor(() => expect(screen.getByRole<HTMLButtonElement>("button", { name: "Add item" }).disabled).toBe(false));
  await user.click(screen.getByRole("button", { name: "Add item" }));
  await waitFor(() => expect(calls).toHaveBeenLastCalledWith(4, "add", expect.objectContaining({ parent: "", item: expect.objectContaining({ title: "Test it" }) })));
});

it("takes a verdict on the plan of a task that has ended", async () => {
  const given = vi.fn();
  const plan = { items: [{ id: "1", title: "Look", status: "done", parent: "", dependsOn: [] }], criteria: [], risks: [] };
  const page = createRoute({ path: "/plan", getParentRoute: () => shellRoute, component: () => <PlanEditor taskId="task_1" plan={plan} ended /> });
  showPage("/plan", [page], (r) => r.service(FeedbackService, { giveFeedback: (req) => (given(req.subject, req.subjectId, req.verdict), {}) }));
  await userEvent.click(await screen.findByRole("button", { name: "Good" }));
  await waitFor(() => expect(given).toHaveBeenCalledWith(FeedbackSubject.PLAN, "task_1", FeedbackVerdict.APPROVE));
});
