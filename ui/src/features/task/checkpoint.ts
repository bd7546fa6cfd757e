import type { TaskCheckpoint } from "@/gen/deckhand/v1/task_pb";

// checkpointNames lists what a checkpoint can be called: the name that the agent gave it, and
// the points before calls of the next iteration that a rule made checkpoints.
export function checkpointNames(c: TaskCheckpoint): string {
  return [c.name, ...c.beforeSteps.map((n) => `before step ${n}`)].filter(Boolean).join(", ");
}

// pointOf says where in its task a checkpoint is.
export function pointOf(c: TaskCheckpoint): string {
  return c.phase === "select_tool" ? `Before the calls of iteration ${c.iteration + 1}` : `End of iteration ${c.iteration}`;
}
