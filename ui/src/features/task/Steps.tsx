import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { memo, useEffect, useMemo, useRef } from "react";
import { byToken, useRest } from "@/api/pages";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Code } from "@/components/Code";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Lines, useLines } from "@/components/Lines";
import { Literal } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { argumentsOf } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { StepBadge } from "@/components/state";
import { duration, millis } from "@/components/Time";
import { LogView } from "@/features/log/LogView";
import { logOf } from "@/features/log/source";
import { Verdict } from "@/features/pattern/Verdict";
import { may } from "@/features/session/queries";
import { FeedbackSubject } from "@/gen/deckhand/v1/feedback_pb";
import type { Step } from "@/gen/deckhand/v1/step_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { Arguments } from "./Arguments";
import { Jobs } from "./Jobs";
import { titleFor } from "./tools";

const rowHeight = 34;

// Steps lists a task's jobs and its tool calls, with the arguments, the result and the log
// of the one that the address names, or else the newest. Of a long list a window is drawn.
export function Steps(props: { taskId: string; step?: number; line?: number; find?: string }) {
  const pages = useInfiniteQuery(TaskService.method.listSteps, { taskId: props.taskId, pageSize: 500, pageToken: "", brief: true }, byToken);
  useRest(pages);
  const navigate = useNavigate();
  const { error, isPending, refetch } = pages;
  const steps = useMemo(() => pages.data?.pages.flatMap((page) => page.steps) ?? [], [pages.data]);
  if (isPending) return <Skeletons rows={6} />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (steps.length === 0) return <Empty title="No steps yet">Every tool call is recorded here before it runs.</Empty>;
  const at = props.step === undefined ? steps.length - 1 : steps.findIndex((s) => s.number === props.step);
  const step = steps[at];
  const choose = (number: number) =>
    void navigate({ to: "/tasks/$task", params: { task: props.taskId }, search: { tab: "steps", step: number }, replace: true });
  return (
    <>
      <Jobs taskId={props.taskId} onLog={(id) => choose(steps.find((s) => s.id === id)?.number ?? steps.length)} />
      <div className="grid gap-4 lg:grid-cols-[minmax(18rem,30rem)_minmax(0,1fr)]">
        <List steps={steps} at={at} choose={choose} />
        {step ? (
          <StepDetail key={step.id} taskId={props.taskId} step={step} line={props.line} find={props.find} />
        ) : pages.hasNextPage ? (
          <Skeletons rows={6} />
        ) : (
          <Empty title={`No step ${props.step}`}>The task has {steps.length} steps.</Empty>
        )}
      </div>
    </>
  );
}

function List(props: { steps: Step[]; at: number; choose: (number: number) => void }) {
  const { steps, at, choose } = props;
  const box = useRef<HTMLDivElement>(null);
  const virtual = useLines(box, steps.length, rowHeight);
  // What the address names is in view, also when its page comes later.
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [at, virtual]);
  const move = (to: number) => {
    const step = steps[Math.max(0, Math.min(steps.length - 1, to))];
    if (step) choose(step.number);
  };
  return (
    <div
      ref={box}
      tabIndex={0}
      role="listbox"
      aria-label="Steps"
      aria-activedescendant={at >= 0 ? `step-${steps[at]!.number}` : undefined}
      className="max-h-[70vh] overflow-y-auto rounded-md border bg-panel"
      onKeyDown={(e) => {
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1, Home: 0, End: steps.length - 1 }[e.key];
        if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        move(to);
      }}
    >
      <Lines of={virtual} height={rowHeight} row={(i) => <StepRow step={steps[i]!} current={i === at} choose={choose} />} />
    </div>
  );
}

const StepRow = memo(function StepRow(props: { step: Step; current: boolean; choose: (number: number) => void }) {
  const { step: s } = props;
  const from = millis(s.startedAt);
  const to = millis(s.finishedAt);
  const title = titleFor(s.tool, argumentsOf(s.arguments));
  return (
    <div
      role="option"
      id={`step-${s.number}`}
      aria-selected={props.current}
      onClick={() => props.choose(s.number)}
      className={cx("flex h-full cursor-pointer items-center gap-2 border-b px-3 hover:bg-raised", props.current && "bg-raised")}
    >
      <span className="w-8 shrink-0 text-right text-dim tabular-nums">{s.number}</span>
      <span className="min-w-0 flex-1 truncate text-xs">
        {s.tool !== "shell_exec" && (
          <>
            <Literal className="font-mono text-dim" text={s.tool} />{" "}
          </>
        )}
        {title}
      </span>
      {from && to && <span className="shrink-0 text-xs text-dim">{duration(to - from)}</span>}
      <Ended step={s} />
    </div>
  );
});

// Ended is how a step ended: a command that ran and failed did not succeed.
function Ended({ step }: { step: Step }) {
  const exit = step.outcome?.exit_code;
  if (typeof exit === "number" && exit !== 0) return <Badge tone="bad">exit {exit}</Badge>;
  return <StepBadge state={step.state} />;
}

function StepDetail(props: { taskId: string; step: Step; line?: number; find?: string }) {
  const { taskId, step: brief } = props;
  const { data, error, isPending, refetch } = useQuery(TaskService.method.listSteps, { taskId, stepId: brief.id });
  const source = useMemo(() => logOf(brief.id), [brief.id]);
  const session = useSession();
  const step = data?.steps[0];
  if (isPending) return <Skeletons rows={6} />;
  if (!step) return <Problem error={error ?? new Error("Step not found.")} retry={() => void refetch()} />;
  // The page's base is not its address.
  const linkTo = (line: number) => `${location.pathname}?tab=steps&step=${step.number}&line=${line}`;
  return (
    <section aria-label={`Step ${step.number}`} className="min-w-0 space-y-3">
      <h2 className="flex flex-wrap items-center gap-2 font-semibold">
        {step.number} <Literal className="font-mono text-sm" text={step.tool} /> <Ended step={step} /> <Id value={step.id} />
      </h2>
      {step.reasoning && <Markdown className="text-dim" text={step.reasoning} />}
      {step.decisionReason && <p className="text-xs text-dim">Decision: <Literal text={step.decisionReason} /></p>}
      {step.approvalId && (
        <Link to="/inbox" search={{ item: step.approvalId }} className="text-xs text-accent hover:underline">
          Show in the inbox
        </Link>
      )}
      <Arguments of={argumentsOf(step.arguments)} />
      {step.changedArguments && (
        <>
          <p className="text-xs text-dim">Changed by {step.changedBy}:</p>
          <Arguments of={argumentsOf(step.changedArguments)} />
        </>
      )}
      <Citations of={step.outcome?.citations} />
      {step.observation && (
        <details open={!(step.logBytes > 0n)}>
          <summary>Result sent to the model</summary>
          <Code text={step.observation} label="Result sent to the model" path={typeof step.arguments?.path === "string" ? step.arguments.path : undefined} />
        </details>
      )}
      {step.finishedAt && may(session, "basic") && <Verdict subject={FeedbackSubject.STEP} id={step.id} what="step" />}
      {(step.logBytes > 0n || step.outcome?.job_id || (step.startedAt && !step.finishedAt)) && (
        <LogView source={source} name={`${step.id}.log`} label={`Output of step ${step.number}`} className="h-[60vh]" line={props.line} find={props.find} linkTo={linkTo} />
      )}
    </section>
  );
}

// Citations are the places of the passages that a search of documents found, which open them.
function Citations({ of }: { of: unknown }) {
  if (!Array.isArray(of) || of.length === 0) return null;
  return (
    <ul aria-label="Citations" className="space-y-0.5 text-sm">
      {of.map((one: { passage?: unknown; citation?: unknown }, i) => (
        <li key={i}>
          <Link to="/knowledge" search={{ passage: String(one.passage ?? "") }} className="break-all text-accent hover:underline">
            <Literal text={String(one.citation ?? "")} />
          </Link>
        </li>
      ))}
    </ul>
  );
}
