import { createRoute } from "@tanstack/react-router";
import { create } from "@bufbuild/protobuf";
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { HistoryService } from "@/gen/deckhand/v1/history_pb";
import { QueueService } from "@/gen/deckhand/v1/queue_pb";
import { TaskSchema } from "@/gen/deckhand/v1/task_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";
import { showPage } from "@/test/page";
import { Assign } from "./Assign";

it("a task is given to a person or an agent of the list, with what a run of the agent takes", async () => {
  const assigned = vi.fn();
  const task = create(TaskSchema, { id: "task_1", assignee: "@human:bea" });
  const page = createRoute({ path: "/assign", getParentRoute: () => shellRoute, component: () => <Assign task={task} onClose={vi.fn()} /> });
  showPage("/assign", [page], (r) => {
    r.service(AgentService, { listAgents: () => ({ agents: [{ id: "agent_1", name: "coder" }, { id: "agent_2", name: "tester", statusReason: "its provider is not connected" }] }) });
    r.service(UserService, { listUsers: () => ({ users: [{ name: "bea" }, { name: "ada" }, { name: "gone", disabled: true }] }) });
    r.service(HistoryService, { getEstimate: (req) => ({ estimate: { basis: `no run of ${req.agentId}` } }) });
    r.service(QueueService, { assignTask: (req) => (assigned(req.taskId, req.assignTo), {}) });
  });
  const user = userEvent.setup();
  const to = await screen.findByLabelText("To");
  await screen.findByRole("option", { name: "ada (you)" });
  await screen.findByRole("option", { name: "tester (its provider is not connected)" });
  expect(screen.queryByRole("option", { name: "gone" })).toBeNull();
  expect(screen.getByRole("button", { name: "Assign" })).toHaveProperty("disabled", true);
  await user.selectOptions(to, "@agent:coder");
  expect((await screen.findByTestId("estimate")).textContent).toContain("agent_1");
  await user.click(screen.getByRole("button", { name: "Assign" }));
  await vi.waitFor(() => expect(assigned).toHaveBeenCalledWith("task_1", "@agent:coder"));
});
