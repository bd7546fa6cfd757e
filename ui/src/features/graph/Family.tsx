import { useInfiniteQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { byToken, useRest } from "@/api/pages";
import { Literal } from "@/components/Literal";
import { dollars } from "@/components/money";
import { TaskBadge } from "@/components/state";
import { duration, millis } from "@/components/Time";
import { TaskService, type Task } from "@/gen/deckhand/v1/task_pb";

export type Branch = { task: Task; how: string; below: Branch[] };

// family makes a tree of a lineage: below each task its subtasks, the tasks that it handed
// its work to, and those that retry or continue it, the oldest first.
export function family(tasks: readonly Task[]): Branch[] {
  const of = new Map(tasks.map((task) => [task.id, { task, how: "", below: [] as Branch[] }]));
  const roots: Branch[] = [];
  const age = (t: Task) => millis(t.createdAt) ?? 0;
  for (const task of [...tasks].sort((a, b) => age(a) - age(b) || (a.id < b.id ? -1 : 1))) {
    const [parent, how] = task.handedFrom
      ? [task.handedFrom, "handoff"]
      : task.parentId
        ? [task.parentId, "subtask"]
        : task.originId
          ? [task.originId, task.resumedAt > 0 ? `continues from iteration ${task.resumedAt}` : "retry"]
          : ["", ""];
    const branch = of.get(task.id)!;
    const above = of.get(parent);
    branch.how = how;
    // What a person may not see has no task here: the branch stands alone.
    if (above && above !== branch) above.below.push(branch);
    else roots.push(branch);
  }
  return roots;
}

// Family shows the tasks of a task's lineage as a tree, with state, cost and time. It
// shows nothing for a task that stands alone.
export function Family({ taskId }: { taskId: string }) {
  const pages = useInfiniteQuery(TaskService.method.listTasks, { lineageOf: taskId, pageSize: 500, pageToken: "" }, byToken);
  useRest(pages);
  const roots = useMemo(() => family(pages.data?.pages.flatMap((p) => p.tasks) ?? []), [pages.data]);
  if (!pages.data || (roots.length < 2 && !roots[0]?.below.length)) return null;
  return (
    <section className="space-y-2" aria-label="Related tasks">
      <h2 className="font-semibold">Related tasks</h2>
      <Branches of={roots} at={taskId} />
    </section>
  );
}

function Branches({ of, at }: { of: Branch[]; at: string }) {
  return (
    <ul className="space-y-1 [&_ul]:ml-3 [&_ul]:border-l [&_ul]:pl-3">
      {of.map(({ task, how, below }) => {
        const from = millis(task.startedAt);
        return (
          <li key={task.id} className="space-y-1">
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
              <TaskBadge task={task} />
              <Link to="/tasks/$task" params={{ task: task.id }} aria-current={task.id === at ? "page" : undefined} className="min-w-0 truncate hover:underline aria-[current=page]:font-semibold">
                <Literal text={task.title || task.goal || task.id} />
              </Link>
              <span className="text-xs text-dim">
                {[how, task.agentName, dollars(task.usage?.costMicros ?? 0n), from && duration((millis(task.finishedAt) ?? Date.now()) - from)].filter(Boolean).join(" · ")}
              </span>
            </div>
            {below.length > 0 && <Branches of={below} at={at} />}
          </li>
        );
      })}
    </ul>
  );
}
