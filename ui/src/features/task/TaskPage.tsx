import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Tabs } from "radix-ui";
import { useMemo } from "react";
import { Badge } from "@/components/Badge";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal, Prose } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { line } from "@/components/marks";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { final, TaskBadge } from "@/components/state";
import { duration, millis, Time, useNow } from "@/components/Time";
import { Browser } from "@/features/browser/Browser";
import { Known } from "@/features/memory/Known";
import { Export } from "@/features/history/Export";
import { Likely } from "@/features/history/Likely";
import { Family } from "@/features/graph/Family";
import { Explanation } from "@/features/insight/Explanation";
import { RunLinks } from "@/features/replay/RunLinks";
import { Changes } from "@/features/workspace/Changes";
import { Files } from "@/features/workspace/Files";
import { TaskService, TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { useTaskView } from "@/live/context";
import { attachmentPath, upload } from "@/features/workspace/upload";
import { TaskControls, tasks } from "./actions";
import { Composer } from "./Composer";
import { Cost } from "./Cost";
import { Limits } from "./Limits";
import { Artifacts, Checkpoints, Manage } from "./Manage";
import { Mend, Outcome } from "./Outcome";
import { PlanEditor } from "./PlanEditor";
import { taskTabs, type TaskTab } from "./search";
import { Steps } from "./Steps";
import { Threads, type Thread } from "./thread";
import { ThreadView } from "./ThreadView";
import { Timeline } from "./Timeline";

const route = getRouteApi("/shell/tasks/$task");

// TaskPage shows one task, live: its thread, steps and logs, timeline, plan,
// changes and details.
export function TaskPage() {
  const { task: id } = route.useParams();
  const { data, error, isPending, refetch } = useQuery(TaskService.method.getTask, { taskId: id });
  if (isPending) return <Page title="Task"><Skeletons rows={6} /></Page>;
  if (error || !data.task) {
    return (
      <Page title="Task">
        <Problem error={error ?? new Error("Task not found.")} retry={() => void refetch()} />
      </Page>
    );
  }
  return <Loaded task={data.task} />;
}

const labels: Record<TaskTab, string> = { thread: "Thread", steps: "Steps and logs", browser: "Browser", timeline: "Timeline", plan: "Plan", changes: "Changes", files: "Files", cost: "Cost", details: "Details" };

function Loaded({ task }: { task: Task }) {
  const { tab = "thread", step, line: logLine, find, file } = route.useSearch();
  const navigate = route.useNavigate();
  const view = useTaskView(task.id);
  const threads = useMemo(() => new Threads(), [task.id]);
  const thread = threads.of(view.events);
  const title = task.title || task.goal || task.agentName;
  const browses = thread.entries.some((e) => e.kind === "call" && e.tool.startsWith("browser_"));
  return (
    <Page
      full
      title={line(title)}
      heading={
        <span className="flex min-w-0 items-center gap-2">
          <Literal className="truncate" text={title} />
          <TaskBadge task={task} />
          {task.provider === "script" && <Badge tone="info">script</Badge>}
          {task.pauseNext && <Badge tone="warn">pausing before next tool call</Badge>}
        </span>
      }
      actions={<TaskControls task={task} onRetried={(made) => void navigate({ to: "/tasks/$task", params: { task: made.id } })} />}
    >
      <div className="flex h-full min-h-0 flex-col">
        <Summary task={task} phase={final(task.state) ? undefined : thread.phase} limits={thread.limits} />
        {(final(task.state) || task.state === TaskState.ESCALATED) && tab === "thread" && <Outcome task={task} thread={thread} />}
        {final(task.state) && tab === "thread" && <Explanation taskId={task.id} />}
        <Tabs.Root
          value={tab}
          onValueChange={(v) => void navigate({ search: { tab: v === "thread" ? undefined : (v as TaskTab) }, replace: true })}
          className="flex min-h-0 flex-1 flex-col"
        >
          <Tabs.List aria-label="Task views" className="flex gap-1 overflow-x-auto border-b px-4">
            {taskTabs.filter((t) => t !== "browser" || tab === t || browses).map((t) => (
              <Tabs.Trigger
                key={t}
                value={t}
                className="-mb-px min-h-8 border-b-2 border-transparent px-3 whitespace-nowrap text-dim data-[state=active]:border-accent data-[state=active]:text-ink"
              >
                {labels[t]}
              </Tabs.Trigger>
            ))}
          </Tabs.List>
          <Tabs.Content value="thread" className="flex min-h-0 flex-1 flex-col">
            <ThreadView taskId={task.id} view={view} thread={thread} />
            {!final(task.state) && (
              <Composer
                placeholder={`Message ${task.agentName} (delivered with its next turn)`}
                send={(text, key) => tasks.tellTask({ taskId: task.id, text, idempotencyKey: key })}
                interrupt={{
                  send: (text, key) => tasks.tellTask({ taskId: task.id, text, idempotencyKey: key, interrupt: true }),
                  refused: notInterrupted(task.state),
                }}
                attach={async (file) => {
                  const path = attachmentPath(file, new Date());
                  await upload(task.id, path, file);
                  return path;
                }}
              />
            )}
          </Tabs.Content>
          <Part value="steps"><Steps taskId={task.id} step={step} line={logLine} find={find} /></Part>
          <Part value="browser"><Browser taskId={task.id} /></Part>
          <Part value="timeline"><Timeline task={task} view={view} /></Part>
          <Part value="plan"><PlanEditor taskId={task.id} plan={thread.plan} ended={final(task.state)} /></Part>
          <Part value="changes"><Changes taskId={task.id} file={file} agentName={task.agentName} live={!final(task.state)} /></Part>
          <Part value="files">{task.nodeId ? <Files of={{ case: "taskId", value: task.id }} file={file} live={!final(task.state)} /> : <Empty title="No files yet">They appear here when the task has started on a node.</Empty>}</Part>
          <Part value="cost"><Cost task={task} view={view} /></Part>
          <Part value="details"><Known taskId={task.id} /><Details task={task} thread={thread} /></Part>
        </Tabs.Root>
      </div>
    </Page>
  );
}

// notInterrupted says why a task in that state has nothing to stop; undefined where it has.
function notInterrupted(state: TaskState): string | undefined {
  switch (state) {
    case TaskState.AWAITING_APPROVAL:
    case TaskState.NEEDS_INPUT:
      return "The task waits for a person: answer what it asks instead";
    case TaskState.WAITING:
      return "The task waits for a subtask: message or cancel that one instead";
    case TaskState.ESCALATED:
      return "The task does not go on by itself: retry it first";
    default:
      return undefined;
  }
}

function Part(props: { value: TaskTab; children: React.ReactNode }) {
  return (
    <Tabs.Content value={props.value} className="min-h-0 flex-1 overflow-y-auto p-5">
      {props.children}
    </Tabs.Content>
  );
}

// Summary shows a task's key figures on a line.
function Summary({ task, phase, limits }: { task: Task; phase: string | undefined; limits: Record<string, number> }) {
  const now = useNow();
  const from = millis(task.startedAt);
  const usage = task.usage;
  return (
    <div className="space-y-1 px-5 pb-3">
      <p className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-dim">
        {task.parentId && (
          <Link to="/tasks/$task" params={{ task: task.parentId }} search={{}} className="text-accent hover:underline">
            ← parent task
          </Link>
        )}
        {task.triggerId && task.triggerId !== "manual" && (
          <Link to="/triggers/$trigger" params={{ trigger: task.triggerId }} className="text-accent hover:underline">
            trigger
          </Link>
        )}
        {task.originId && (
          <Link to="/tasks/$task" params={{ task: task.originId }} search={{}} className="text-accent hover:underline">
            {task.resumedAt > 0 ? `continues a task from iteration ${task.resumedAt}` : "retry of another task"}
          </Link>
        )}
        <Id value={task.id} />
        {task.agentName && (
          <Link to="/agents/$agent" params={{ agent: task.agentName }} search={{ task: task.id }} className="text-accent hover:underline">
            {task.agentName}
          </Link>
        )}
        <span>{task.model}</span>
        {phase && <span data-testid="phase">{phaseWords[phase] ?? phase.replaceAll("_", " ")}</span>}
        <span>{limits.iterations ? `${task.iteration} of ${limits.iterations}` : task.iteration} iterations</span>
        {from && <span>{duration((millis(task.finishedAt) ?? Math.max(now, from)) - from)}</span>}
        <span>
          {dollars(usage?.costMicros ?? 0)}
          {limits.cost_usd ? ` of ${dollars(limits.cost_usd * 1e6)}` : ""}
        </span>
        <span>{count((usage?.inputTokens ?? 0n) + (usage?.outputTokens ?? 0n))} tokens</span>
        <span>
          created <Time at={task.createdAt} /> by {task.createdBy}
        </span>
        <RunLinks task={task} />
      </p>
      {task.progress > 0 && !final(task.state) && (
        <progress className="h-1.5 w-full max-w-md accent-accent" value={task.progress} max={1} aria-label="Progress" />
      )}
      {task.agentId && !final(task.state) && <Likely taskId={task.id} />}
      {task.reason && !final(task.state) && <p className="text-warn"><Literal text={task.reason} /> <Mend task={task} /></p>}
    </div>
  );
}

// What the agent does, by the phases of its loop.
const phaseWords: Record<string, string> = {
  analyze_context: "reading the conversation",
  update_plan: "planning",
  think: "thinking",
  select_tool: "choosing a tool",
  execute_action: "using a tool",
  observe_result: "reading the result",
  iterate: "starting the next turn",
};

function Details({ task, thread }: { task: Task; thread: Thread }) {
  const children = useQuery(TaskService.method.listTasks, { parentId: task.id, pageSize: 100 });
  const link = (id: string) => (
    <Link to="/tasks/$task" params={{ task: id }} className="font-mono text-xs text-accent hover:underline">
      {id}
    </Link>
  );
  const usage = task.usage;
  const rows: [string, React.ReactNode][] = [
    ["Goal", <Prose text={task.goal || "(no goal given: follows its persona)"} />],
    ["Summary", task.summary && <Markdown text={task.summary} />],
    ["Priority", task.priority],
    ["Agent", `${task.agentName} version ${task.agentVersion}`],
    ["Task type", task.taskType],
    ["Assignee", task.assignee && `${task.assignee} (assigned by ${task.assignedBy})`],
    ["Queue position", task.standing && (task.standing.place || "at least 1,000 ahead")],
    ["Attempt", task.attempt],
    ["Active time", task.activeTime && duration(Number(task.activeTime.seconds) * 1000 + task.activeTime.nanos / 1e6)],
    ["Undo possible until", task.undoUntil && <Time at={task.undoUntil} />],
    ["Node", task.nodeId && <Id value={task.nodeId} />],
    ["Image", task.image && <Id value={task.image} whole className="break-all" />],
    ["Parent", task.parentId && link(task.parentId)],
    ["Retry of", task.originId && link(task.originId)],
    ["Handed off from", task.handedFrom && link(task.handedFrom)],
    ["Depends on", task.after.length > 0 && task.after.map((id) => <div key={id}>{link(id)}</div>)],
    [
      "Tokens",
      usage && `${count(usage.inputTokens)} in, ${count(usage.outputTokens)} out, ${count(usage.cacheReadTokens)} from cache`,
    ],
    ["Subtasks", task.subtasks && `${task.subtasks.tasks} (${task.subtasks.live} not ended) · ${dollars(task.subtasks.usage?.costMicros ?? 0)}`],
  ];
  return (
    <div className="space-y-5">
      <dl className="grid max-w-4xl grid-cols-[10rem_minmax(0,1fr)] gap-x-4 gap-y-2">
        {rows
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-dim">{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      <Manage task={task} />
      <Limits task={task} thread={thread} />
      <Checkpoints task={task} />
      <Artifacts task={task} />
      <section className="space-y-2">
        <h2 className="font-semibold">Export</h2>
        <Export taskId={task.id} />
      </section>
      <Family taskId={task.id} />
      {children.data && children.data.tasks.length > 0 && (
        <section className="space-y-2">
          <h2 className="font-semibold">Subtasks</h2>
          <ul className="space-y-1">
            {children.data.tasks.map((t) => (
              <li key={t.id} className="flex items-center gap-3">
                <TaskBadge task={t} />
                <Link to="/tasks/$task" params={{ task: t.id }} className="min-w-0 truncate hover:underline">
                  <Literal text={t.title || t.goal} />
                </Link>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
