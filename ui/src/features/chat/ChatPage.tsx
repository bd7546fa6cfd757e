import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus, TriangleAlert } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Literal, Prose } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { final, TaskBadge } from "@/components/state";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { Threads } from "@/features/task/thread";
import { ThreadView } from "@/features/task/ThreadView";
import { Likely } from "@/features/history/Likely";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { TaskService, TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { useTaskView } from "@/live/context";
import { asContext, conversationsOf, linesOf } from "./conversation";
import { setMode, useMode } from "./mode";
import { ModeToggle } from "./ModeToggle";
import { asPersona, overrideOf, problemsOf } from "./override";
import { RunOptions } from "./RunOptions";
import { Say } from "./Say";

const tasks = createClient(TaskService, transport);
const route = getRouteApi("/shell/chat");

// ChatPage is where a person chats with an agent: in chat mode it answers without
// tools, in agent mode each message starts a task.
export function ChatPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mode = useMode();
  const allowed = may(useSession(), "basic");
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const refresh = useRefresh(TaskService);
  const agent = search.agent ?? agents.data?.agents[0]?.name;
  const chats = useInfiniteQuery(
    TaskService.method.listTasks,
    { chat: true, agentId: search.agent ?? "", pageSize: 100, pageToken: "" },
    byToken,
  );
  const conversations = useMemo(() => conversationsOf(chats.data?.pages.flatMap((p) => p.tasks) ?? []), [chats.data]);
  const asked = useQuery(TaskService.method.getTask, { taskId: search.chat ?? "" }, { enabled: Boolean(search.chat) });
  // Of a conversation the newest, also where an older one is linked.
  const chat = conversations.find((c) => c.id === asked.data?.task?.lineageId)?.newest ?? asked.data?.task;
  const [choices, setChoices] = useState(asPersona);
  const fresh = () => void navigate({ search: { agent: search.agent } });
  useShortcut("n", "New conversation", "Chat", fresh);
  useShortcut("m", "Switch between chat and agent mode", "Chat", () => setMode(mode === "chat" ? "agent" : "chat"));
  const send = async (text: string, key: string) => {
    const to = mode === "chat" && chat ? chat.agentName : agent;
    const { task } = await tasks.submitTask(
      mode === "chat"
        ? { agentId: to, goal: text, chat: true, replyTo: chat?.id ?? "", idempotencyKey: key }
        : { agentId: to, goal: text, idempotencyKey: key, override: overrideOf(choices) },
    );
    setChoices(asPersona);
    await refresh();
    void navigate({ search: mode === "chat" ? { agent: search.agent, chat: task?.id } : { agent: search.agent, task: task?.id } });
  };
  if (agents.isPending) return <Page title="Chat"><Skeletons rows={6} /></Page>;
  if (agents.error) return <Page title="Chat"><Problem error={agents.error} retry={() => void agents.refetch()} /></Page>;
  if (agents.data.agents.length === 0) {
    return (
      <Page title="Chat">
        <Empty title="No agents yet" command="deckhand agent apply -f personas/">
          Create one to start chatting.
        </Empty>
      </Page>
    );
  }
  const waiting = mode === "chat" && chat !== undefined && !final(chat.state);
  return (
    <Page
      full
      title="Chat"
      actions={
        <>
          <ModeToggle />
          <Select
            aria-label="Agent"
            className="max-w-48"
            value={agent}
            onChange={(e) => void navigate({ search: { agent: e.target.value } })}
          >
            {agents.data.agents.map((a) => (
              <option key={a.id}>{a.name}</option>
            ))}
          </Select>
          <Button onClick={fresh}>
            <Plus aria-hidden className="size-4" /> New
          </Button>
        </>
      }
    >
      <div className="grid h-full min-h-0 md:grid-cols-[15rem_minmax(0,1fr)]">
        <nav aria-label="Conversations" className="min-h-0 overflow-y-auto border-t border-r p-2 max-md:max-h-40 max-md:border-r-0">
          {chats.isPending ? (
            <Skeletons rows={4} />
          ) : chats.error ? (
            <Problem error={chats.error} retry={() => void chats.refetch()} />
          ) : conversations.length === 0 ? (
            <p className="p-2 text-dim">Your conversations appear here.</p>
          ) : (
            <ul>
              {conversations.map((c) => (
                <li key={c.id}>
                  <Link
                    to="/chat"
                    search={{ agent: search.agent, chat: c.newest.id }}
                    onClick={() => setMode("chat")}
                    className={cx("block rounded-md px-2 py-1.5 hover:bg-raised", c.newest.id === chat?.id && "bg-raised")}
                    aria-current={c.newest.id === chat?.id ? "true" : undefined}
                  >
                    <Literal className="block truncate" text={c.title} />
                    <span className="text-xs text-dim">
                      {c.newest.agentName} · <Time at={c.newest.createdAt} />
                    </span>
                  </Link>
                </li>
              ))}
              {chats.hasNextPage && (
                <li>
                  <Button small busy={chats.isFetchingNextPage} onClick={() => void chats.fetchNextPage()}>
                    Load older
                  </Button>
                </li>
              )}
            </ul>
          )}
        </nav>
        <div className="flex min-h-0 min-w-0 flex-col border-t">
          {mode === "agent" && (
            <p role="note" className="flex items-start gap-2 border-b bg-panel px-4 py-2 text-warn">
              <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
              Agent mode: each message starts a task that {agent} works on by itself, within the limits of its persona.
            </p>
          )}
          {mode === "agent" ? (
            search.task ? (
              <Run key={search.task} taskId={search.task} />
            ) : (
              <div className="flex-1">
                <Empty title="No task yet">{agent}&apos;s activity appears here live.</Empty>
              </div>
            )
          ) : search.chat && asked.isPending ? (
            <div className="flex-1 p-4"><Skeletons rows={3} /></div>
          ) : asked.error && search.chat ? (
            <div className="flex-1 p-4"><Problem error={asked.error} retry={() => void asked.refetch()} /></div>
          ) : chat && search.chat ? (
            <Said chat={chat} allowed={allowed} />
          ) : (
            <div className="flex-1">
              <Empty title={`Ask ${agent}`}>
                Chat: the agent answers without using tools. Running tasks are not affected.
              </Empty>
            </div>
          )}
          {allowed && mode === "agent" && agent && (
            <div className="border-t bg-panel px-4 py-2">
              <Likely agentId={agent} />
            </div>
          )}
          {allowed && mode === "agent" && <RunOptions choices={choices} change={setChoices} />}
          {allowed ? (
            <Say
              label={mode === "chat" ? "Your question" : "Task"}
              placeholder={waiting ? "Waiting for the answer" : mode === "chat" ? `Ask ${chat?.agentName ?? agent}` : `Task for ${agent}`}
              action={mode === "chat" ? "Ask" : "Run"}
              disabled={waiting || (mode === "agent" && Object.keys(problemsOf(choices)).length > 0)}
              send={send}
            />
          ) : (
            <p className="border-t p-3 text-dim">You need the role &quot;basic&quot; to chat.</p>
          )}
        </div>
      </div>
    </Page>
  );
}

// Said shows a conversation, and starts a task from it.
function Said(props: { chat: Task; allowed: boolean }) {
  const { chat } = props;
  const navigate = route.useNavigate();
  const refresh = useRefresh(TaskService);
  const lines = linesOf(chat);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView?.({ block: "end" }), [chat.id, chat.summary, chat.state]);
  const act = async (goal: string, key: string) => {
    const { task } = await tasks.submitTask({
      agentId: chat.agentName,
      goal,
      conversation: asContext(lines),
      idempotencyKey: key,
    });
    await refresh();
    setMode("agent");
    void navigate({ search: (s) => ({ agent: s.agent, task: task?.id }) });
  };
  return (
    <div className="min-h-0 flex-1 overflow-y-auto" role="log" aria-label="Conversation" tabIndex={0}>
      <ol className="mx-auto max-w-3xl space-y-3 p-4">
        {lines.map((line, i) => (
          <li key={i} className={line.role === "user" ? "flex justify-end" : ""}>
            <div
              className={cx(
                "w-fit max-w-[85%] rounded-lg border px-3 py-2 break-words",
                line.role === "user" ? "bg-raised whitespace-pre-wrap" : "bg-panel",
              )}
            >
              <span className="sr-only">{line.role === "user" ? "You: " : `${chat.agentName}: `}</span>
              {line.role === "user" ? <Prose text={line.text} /> : <Markdown text={line.text} />}
            </div>
          </li>
        ))}
        {!final(chat.state) && (
          <li role="status" className="flex items-center gap-2 text-dim">
            <TaskBadge task={chat} /> <Literal text={chat.reason} />
          </li>
        )}
        {final(chat.state) && chat.state !== TaskState.SUCCEEDED && (
          <li role="alert" className="text-bad">
            No answer: <Literal text={chat.errorMessage || chat.reason || "it was cancelled"} />{" "}
            <Link to="/tasks/$task" params={{ task: chat.id }} className="underline">
              Open task
            </Link>
          </li>
        )}
      </ol>
      {props.allowed && final(chat.state) && (
        <details className="mx-auto max-w-3xl px-4 pb-3">
          <summary className="cursor-pointer text-dim">Start a task from this conversation</summary>
          <p className="py-1 text-warn">{chat.agentName} works on the task by itself. It gets this conversation as context.</p>
          <Say label="Goal" placeholder="What the agent should do" action="Run" send={act} />
        </details>
      )}
      <div ref={end} />
    </div>
  );
}

// Run shows a task as it happens.
function Run(props: { taskId: string }) {
  const view = useTaskView(props.taskId);
  const threads = useMemo(() => new Threads(), []);
  const found = useQuery(TaskService.method.getTask, { taskId: props.taskId });
  const task = found.data?.task;
  return (
    <>
      <p className="flex flex-wrap items-center gap-2 border-b px-4 py-2">
        {task && <TaskBadge task={task} />}
        <Literal className="min-w-0 flex-1 truncate" text={task?.title ?? ""} />
        {task && (
          <Link to="/agents/$agent" params={{ agent: task.agentName }} search={{ task: task.id }} className="underline">
            Open agent
          </Link>
        )}
      </p>
      {found.error ? (
        <div className="flex-1 p-4"><Problem error={found.error} retry={() => void found.refetch()} /></div>
      ) : (
        <div className="flex min-h-0 flex-1 flex-col">
          <ThreadView taskId={props.taskId} view={view} thread={threads.of(view.events)} />
        </div>
      )}
    </>
  );
}
