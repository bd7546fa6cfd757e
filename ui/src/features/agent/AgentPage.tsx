import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Rocket, SquareTerminal } from "lucide-react";
import { Tabs } from "radix-ui";
import { lazy, Suspense, useMemo, useState } from "react";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Literal, LiteralBlock } from "@/components/Literal";
import { line } from "@/components/marks";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { AgentBadge, final, TaskBadge, taskWord } from "@/components/state";
import { Run } from "@/features/history/Run";
import { may } from "@/features/session/queries";
import { TaskControls } from "@/features/task/actions";
import { Composer } from "@/features/task/Composer";
import { PlanTree } from "@/features/task/Plan";
import { Threads } from "@/features/task/thread";
import { ThreadView } from "@/features/task/ThreadView";
import { Changes } from "@/features/workspace/Changes";
import { Files } from "@/features/workspace/Files";
import { AgentService, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import { useTaskView } from "@/live/context";
import { AgentHold } from "./AgentHold";
import { AgentMenu } from "./AgentMenu";
import { AgentUsage } from "./AgentUsage";
import { sides, type Side } from "./sides";

const Terminal = lazy(() => import("@/features/terminal/Terminal").then((m) => ({ default: m.Terminal })));
const agents = createClient(AgentService, transport);
const route = getRouteApi("/shell/agents/$agent");

// AgentPage shows an agent: on the left its activity, with a box to message it; on
// the right its files, changes, plan and persona; below a terminal.
export function AgentPage() {
  const { agent: name } = route.useParams();
  const { task: chosen } = route.useSearch();
  const { data, error, isPending, refetch } = useQuery(AgentService.method.getAgent, { agentId: name });
  const list = useQuery(TaskService.method.listTasks, { agentId: name, pageSize: 50 });
  if (isPending || list.isPending) return <Page title={name}><Skeletons rows={6} /></Page>;
  if (error || !data.agent) {
    return (
      <Page title={name}>
        <Problem error={error ?? new Error("Agent not found.")} retry={() => void refetch()} />
      </Page>
    );
  }
  const all = list.data?.tasks ?? [];
  const task = all.find((t) => t.id === chosen) ?? all[0];
  return <Loaded agent={data.agent} markdown={data.version?.markdown ?? ""} tasks={all} task={task} />;
}

function Loaded(props: { agent: Agent; markdown: string; tasks: Task[]; task: Task | undefined }) {
  const { agent, task } = props;
  const { side = "files", terminal } = route.useSearch();
  const navigate = route.useNavigate();
  const session = useSession();
  const [running, setRunning] = useState(false);
  const tell = (text: string, key: string) => agents.tellAgent({ agentId: agent.id, text, idempotencyKey: key });
  return (
    <Page
      full
      title={agent.name}
      heading={
        <span className="flex min-w-0 items-center gap-2">
          {agent.name}
          <AgentBadge status={agent.status} reason={agent.statusReason} />
          {task && <TaskBadge task={task} />}
          {agent.hubAccess && <Badge title="Programs in its jail may call the hub for their task">hub access</Badge>}
        </span>
      }
      actions={
        <>
          <Link to="/agents/$agent/edit" params={{ agent: agent.name }} className="text-sm underline">
            Edit
          </Link>
          {props.tasks.length > 0 && (
            <Select
              aria-label="Task"
              className="max-w-72"
              value={task?.id}
              onChange={(e) => void navigate({ search: (s) => ({ ...s, task: e.target.value }) })}
            >
              {props.tasks.map((t) => (
                <option key={t.id} value={t.id}>
                  {line(t.title || t.goal || t.id)} ({taskWord(t.state)})
                </option>
              ))}
            </Select>
          )}
          {task && <TaskControls task={task} onRetried={(t) => void navigate({ search: (s) => ({ ...s, task: t.id }) })} />}
          <AgentHold agent={agent} />
          <AgentMenu agent={agent} />
          {may(session, "basic") && (
            <Button onClick={() => setRunning(true)}>
              <Rocket aria-hidden className="size-4" /> Run
            </Button>
          )}
          {task?.nodeId && may(session, "advanced") && (
            <Button
              aria-pressed={terminal !== undefined}
              onClick={() => void navigate({ search: (s) => ({ ...s, terminal: terminal ? undefined : "jail" }) })}
            >
              <SquareTerminal aria-hidden className="size-4" /> Terminal
            </Button>
          )}
        </>
      }
    >
      {running && (
        <Run agent={agent} onClose={() => setRunning(false)} started={(id) => void navigate({ search: (s) => ({ ...s, task: id }) })} />
      )}
      <div className="flex h-full min-h-0 flex-col border-t">
        {agent.statusReason && <p className="border-b px-5 py-2 text-warn"><Literal text={agent.statusReason} /></p>}
        <div className="grid min-h-0 flex-1 grid-cols-[minmax(0,3fr)_minmax(0,2fr)] max-lg:grid-cols-1 max-lg:grid-rows-2">
          <section aria-label="Activity" className="flex min-h-0 flex-col border-r">
            {task ? (
              <Track key={task.id} task={task} />
            ) : (
              <div className="flex-1">
                <Empty title="No runs yet" command={`deckhand run ${agent.name} "What to do"`}>
                  <Literal text={agent.description} />
                </Empty>
              </div>
            )}
            <Composer placeholder={`Message ${agent.name} (starts a task if it is idle)`} send={tell} />
          </section>
          <Tabs.Root
            value={side}
            onValueChange={(v) => void navigate({ search: (s) => ({ ...s, side: v as Side }), replace: true })}
            className="flex min-h-0 flex-col"
          >
            <Tabs.List aria-label="Agent views" className="flex gap-1 border-b px-3">
              {sides.map((s) => (
                <Tabs.Trigger
                  key={s}
                  value={s}
                  className="-mb-px min-h-8 border-b-2 border-transparent px-3 text-dim capitalize data-[state=active]:border-accent data-[state=active]:text-ink"
                >
                  {s}
                </Tabs.Trigger>
              ))}
            </Tabs.List>
            {sides.map((s) => (
              <Tabs.Content key={s} value={s} className="min-h-0 flex-1 overflow-y-auto p-3">
                {s === "persona" ? (
                  <LiteralBlock text={props.markdown} label="Persona" />
                ) : s === "usage" ? (
                  <AgentUsage agentId={agent.id} />
                ) : !task ? (
                  <Empty title="Nothing here until the first run." />
                ) : s === "files" ? (
                  <Files of={{ case: "taskId", value: task.id }} live={!final(task.state)} />
                ) : s === "changes" ? (
                  <Changes taskId={task.id} />
                ) : (
                  <TaskPlan taskId={task.id} />
                )}
              </Tabs.Content>
            ))}
          </Tabs.Root>
        </div>
        {terminal && task?.nodeId && (
          <Suspense fallback={<div className="p-3"><Skeletons rows={3} /></div>}>
            <Terminal
              nodeId={task.nodeId}
              taskId={task.id}
              agent={agent.name}
              host={terminal === "host"}
              onHost={(host) => void navigate({ search: (s) => ({ ...s, terminal: host ? "host" : "jail" }) })}
              onClose={() => void navigate({ search: (s) => ({ ...s, terminal: undefined }) })}
            />
          </Suspense>
        )}
      </div>
    </Page>
  );
}

function Track({ task }: { task: Task }) {
  const view = useTaskView(task.id);
  const threads = useMemo(() => new Threads(), [task.id]);
  return (
    <>
      <p className="flex items-center gap-3 border-b px-4 py-1.5 text-xs text-dim">
        <Link to="/tasks/$task" params={{ task: task.id }} className="min-w-0 truncate text-accent hover:underline">
          <Literal text={task.title || task.goal || task.id} />
        </Link>
        <span className="flex-1" />
        {task.reason && <Literal className="truncate" text={task.reason} />}
      </p>
      <ThreadView taskId={task.id} view={view} thread={threads.of(view.events)} />
    </>
  );
}

function TaskPlan({ taskId }: { taskId: string }) {
  const view = useTaskView(taskId);
  const threads = useMemo(() => new Threads(), [taskId]);
  return <PlanTree plan={threads.of(view.events).plan} />;
}
