import { useQuery } from "@connectrpc/connect-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { safeLink } from "@/components/link";
import { dollars } from "@/components/money";
import { Place } from "@/components/Place";
import { duration, millis } from "@/components/Time";
import { Tail } from "@/features/log/Tail";
import { may } from "@/features/session/queries";
import { TaskState, type Task, type TaskSource } from "@/gen/deckhand/v1/task_pb";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { partlyDone } from "@/gen/facts";
import { failureOf, type Remedy } from "./failure";
import { ResumeFrom, RetryWith } from "./remedies";
import { titleOf } from "./tools";
import type { Thread } from "./thread";

// Outcome is how a task ended, above everything else of it: its result, or what went
// wrong and what can be done about it. A task that goes on has none.
export function Outcome(props: { task: Task; thread: Thread }) {
  const { task, thread } = props;
  if (task.state === TaskState.SUCCEEDED) return <Result task={task} title="Result" />;
  if (task.errorCode === partlyDone && task.state === TaskState.FAILED) return <Result task={task} title="Partly done" rest />;
  return <Failed task={task} thread={thread} />;
}

// Result has the summary of a task whose work can be used. rest offers to have the rest done,
// from where the agent stopped; the task's error would only repeat the summary.
function Result(props: { task: Task; title: string; rest?: boolean }) {
  const { task } = props;
  const session = useSession();
  const navigate = useNavigate();
  const [resume, setResume] = useState(false);
  return (
    <section aria-labelledby="outcome" data-testid="outcome" className="mx-5 mb-3 max-h-[40vh] shrink-0 space-y-2 overflow-y-auto rounded-lg border bg-panel p-4" tabIndex={0}>
      <h2 id="outcome" className="text-base font-semibold">
        {props.title}
      </h2>
      {task.summary ? <Markdown text={task.summary} /> : <p className="text-dim">The agent gave no summary.</p>}
      <Sources task={task} />
      {task.errorMessage && !props.rest && <p className="text-warn"><Literal text={task.errorMessage} /></p>}
      {props.rest && may(session, "basic") && <Button onClick={() => setResume(true)}>Continue with the rest</Button>}
      <Figures task={task} />
      {resume && (
        <ResumeFrom task={task} onClose={() => setResume(false)} onMade={(made) => void navigate({ to: "/tasks/$task", params: { task: made.id }, search: {} })} />
      )}
    </section>
  );
}

// Sources are what the agent says that its result is based on. Nobody has checked it: an address
// is text, and a link only if a browser may follow it.
export function Sources({ task }: { task: Task }) {
  if (task.sources.length === 0) return null;
  return (
    <div>
      <h3 className="text-xs font-semibold text-dim">Sources, as the agent says</h3>
      <ul className="list-inside list-disc text-xs">
        {task.sources.map((s, i) => (
          <li key={i} className="break-words">
            <span className="text-dim">{s.kind}</span> <SourceReference task={task} of={s} />
            {s.title && (
              <>
                {": "}
                <Literal text={s.title} />
              </>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function SourceReference({ task, of }: { task: Task; of: TaskSource }) {
  const text = <Literal className="font-mono" text={of.reference} />;
  const link = of.kind === "url" ? safeLink(of.reference) : undefined;
  if (link)
    return (
      <a href={link} target="_blank" rel="noreferrer noopener" className="underline">
        {text}
      </a>
    );
  const step = of.kind === "step" && /^\d{1,9}$/.test(of.reference) ? Number(of.reference) : undefined;
  if (step !== undefined)
    return (
      <Link to="/tasks/$task" params={{ task: task.id }} search={{ tab: "steps", step }} className="underline">
        {text}
      </Link>
    );
  return text;
}

// Mend leads to the place where a person can do something about a task.
export function Mend({ task }: { task: Task }) {
  const { action } = task;
  if (!action || action.path === `/tasks/${task.id}`) return null;
  return (
    <Place path={action.path} className="inline-flex min-h-8 items-center rounded-md border border-accent bg-panel px-3 text-sm font-medium hover:bg-raised" title={action.command}>
      {action.label}
    </Place>
  );
}

// Figures are what the task made and used.
function Figures({ task }: { task: Task }) {
  const changes = useQuery(WorkspaceService.method.listChanges, { taskId: task.id, pageSize: 500 }, { retry: false });
  const files = new Set(changes.data?.steps.filter((s) => !s.undoneAt).flatMap((s) => s.changes.filter((c) => c.after?.type !== "dir").map((c) => c.path)));
  const shown = [...files].slice(0, 12);
  const from = millis(task.startedAt);
  const to = millis(task.finishedAt);
  const below = task.subtasks?.usage?.costMicros ?? 0n;
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-dim">
      <span>
        {dollars((task.usage?.costMicros ?? 0n) + below)}
        {below > 0n && ` (${dollars(below)} by subtasks)`}
      </span>
      {from && to && <span>{duration(to - from)}</span>}
      {shown.length > 0 && (
        <span className="flex min-w-0 flex-wrap items-center gap-1.5">
          {files.size} {files.size === 1 ? "file" : "files"}:
          {shown.map((path) => (
            <Link key={path} to="/tasks/$task" params={{ task: task.id }} search={{ tab: "changes", file: path }} className="rounded border px-1.5 font-mono hover:bg-raised">
              <Literal text={path} />
            </Link>
          ))}
          {files.size > shown.length && `and ${files.size - shown.length} more`}
        </span>
      )}
    </div>
  );
}

function Failed({ task, thread }: { task: Task; thread: Thread }) {
  const failure = failureOf(task, thread);
  const session = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"retry" | "limit" | "resume">();
  if (!failure) return null;
  const { step } = failure;
  const goTo = (made: Task) => void navigate({ to: "/tasks/$task", params: { task: made.id }, search: {} });
  const link = "inline-flex min-h-8 items-center rounded-md border bg-panel px-3 text-sm font-medium hover:bg-raised";
  const remedies: Record<Remedy, React.ReactNode> = {
    retry: <Button key="retry" onClick={() => setOpen("retry")}>Retry with changes</Button>,
    limit: <Button key="limit" onClick={() => setOpen("limit")}>Raise a limit</Button>,
    resume: <Button key="resume" onClick={() => setOpen("resume")}>{task.iteration > 0 ? `Resume from iteration ${task.iteration}` : "Resume"}</Button>,
    agent: task.agentName && <Link key="agent" to="/agents/$agent/edit" params={{ agent: task.agentName }} className={link}>Edit the agent</Link>,
    provider: <Link key="provider" to="/providers" className={link}>Open providers</Link>,
    node: <Link key="node" to="/nodes" className={link}>Open nodes</Link>,
    changes: <Link key="changes" to="/tasks/$task" params={{ task: task.id }} search={{ tab: "changes" }} className={link}>See what it changed</Link>,
  };
  return (
    <section aria-labelledby="outcome" data-testid="outcome" className="mx-5 mb-3 max-h-[48vh] shrink-0 space-y-2 overflow-y-auto rounded-lg border border-bad bg-panel p-4" tabIndex={0}>
      <h2 id="outcome" className="text-base font-semibold text-bad">
        {failure.title}
      </h2>
      {failure.cause && (
        <p>
          <Literal className="break-words whitespace-pre-wrap" text={failure.cause} /> {task.errorCode && <Id value={task.errorCode} whole />}
        </p>
      )}
      <div className="flex flex-wrap items-center gap-2">
        {step && (
          <Link to="/tasks/$task" params={{ task: task.id }} search={{ tab: "steps", step: step.number }} className={link}>
            {step.logBytes > 0 ? `Open step ${step.number} and its log` : `Open step ${step.number}`}
          </Link>
        )}
        <Mend task={task} />
        {may(session, "basic") && failure.remedies.map((r) => remedies[r])}
      </div>
      {step && (
        <div className="space-y-1">
          <p className="text-xs text-dim">
            Step {step.number}: {titleOf(step)}
          </p>
          {step.startedAt && step.tool === "shell_exec" ? (
            <Tail execId={step.stepId} lines={20} label={`Last lines of step ${step.number}`} className="max-h-36 md:max-h-44" />
          ) : (
            step.outcome?.message !== undefined && <p className="text-xs"><Literal text={String(step.outcome.message)} /></p>
          )}
        </div>
      )}
      {task.summary && (
        <details>
          <summary>Summary of the agent</summary>
          <Markdown text={task.summary} />
        </details>
      )}
      <Sources task={task} />
      {(open === "retry" || open === "limit") && <RetryWith task={task} limits={open === "limit"} onClose={() => setOpen(undefined)} onMade={goTo} />}
      {open === "resume" && <ResumeFrom task={task} onClose={() => setOpen(undefined)} onMade={goTo} />}
    </section>
  );
}
