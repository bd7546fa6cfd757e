import { Link } from "@tanstack/react-router";
import type { Task } from "@/gen/deckhand/v1/task_pb";

// RunLinks lead from a task to the other ways to look at it: its replay, its family, and
// the comparison with the run that it repeats.
export function RunLinks({ task }: { task: Pick<Task, "id" | "originId"> }) {
  const look = "text-accent hover:underline";
  return (
    <>
      <Link to="/tasks/$task/replay" params={{ task: task.id }} className={look}>
        Replay
      </Link>
      {task.originId && (
        <Link to="/compare" search={{ a: task.originId, b: task.id }} className={look}>
          Compare with the run before
        </Link>
      )}
    </>
  );
}
