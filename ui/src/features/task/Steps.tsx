import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import { byToken } from "@/api/pages";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal, LiteralBlock, Prose } from "@/components/Literal";
import { argumentsOf } from "@/components/marks";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { StepBadge } from "@/components/state";
import { duration, millis } from "@/components/Time";
import { LogView } from "@/features/log/LogView";
import { logOf } from "@/features/log/source";
import type { Step } from "@/gen/deckhand/v1/step_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { Arguments } from "./Arguments";
import { Jobs } from "./Jobs";

// Steps lists a task's jobs and its tool calls, with the arguments, the result and the log
// of each.
export function Steps(props: { taskId: string }) {
  const pages = useInfiniteQuery(TaskService.method.listSteps, { taskId: props.taskId, pageSize: 500, pageToken: "" }, byToken);
  const { error, isPending, refetch } = pages;
  const [chosen, setChosen] = useState<string>();
  if (isPending) return <Skeletons rows={6} />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  const steps = pages.data.pages.flatMap((page) => page.steps);
  if (steps.length === 0) return <Empty title="No steps yet">Every tool call is recorded here before it runs.</Empty>;
  const step = steps.find((s) => s.id === chosen) ?? steps.at(-1)!;
  return (
    <>
      <Jobs taskId={props.taskId} onLog={setChosen} />
      <div className="grid gap-4 lg:grid-cols-[minmax(16rem,26rem)_minmax(0,1fr)]">
        <div>
          <ol aria-label="Steps" className="max-h-[70vh] overflow-y-auto rounded-md border bg-panel" tabIndex={0}>
            {steps.map((s) => {
              const from = millis(s.startedAt);
              const to = millis(s.finishedAt);
              return (
                <li key={s.id} className="border-b last:border-0">
                  <button
                    type="button"
                    aria-current={s.id === step.id ? "true" : undefined}
                    onClick={() => setChosen(s.id)}
                    className={cx("flex w-full items-center gap-2 px-3 py-1.5 text-left hover:bg-raised", s.id === step.id && "bg-raised")}
                  >
                    <span className="w-6 text-right text-dim">{s.number}</span>
                    <Literal className="min-w-0 flex-1 truncate font-mono text-xs" text={s.tool} />
                    {from && to && <span className="text-xs text-dim">{duration(to - from)}</span>}
                    <StepBadge state={s.state} />
                  </button>
                </li>
              );
            })}
          </ol>
          <More pages={pages}>Later steps</More>
        </div>
        <StepDetail key={step.id} step={step} />
      </div>
    </>
  );
}

function StepDetail({ step }: { step: Step }) {
  const source = useMemo(() => logOf(step.id), [step.id]);
  return (
    <section aria-label={`Step ${step.number}`} className="min-w-0 space-y-3">
      <h3 className="flex flex-wrap items-center gap-2 font-semibold">
        {step.number} <Literal className="font-mono text-sm" text={step.tool} /> <Id value={step.id} />
      </h3>
      {step.reasoning && <p className="text-dim"><Prose text={step.reasoning} /></p>}
      {step.decisionReason && <p className="text-xs text-dim">Decision: <Literal text={step.decisionReason} /></p>}
      <Arguments of={argumentsOf(step.arguments)} />
      {step.changedArguments && (
        <>
          <p className="text-xs text-dim">Changed by {step.changedBy}:</p>
          <Arguments of={argumentsOf(step.changedArguments)} />
        </>
      )}
      {step.observation && (
        <details>
          <summary>Result sent to the model</summary>
          <LiteralBlock text={step.observation} label="Result sent to the model" />
        </details>
      )}
      {(step.logBytes > 0n || step.outcome?.job_id || (step.startedAt && !step.finishedAt)) && (
        <LogView source={source} name={`${step.id}.log`} label={`Output of step ${step.number}`} className="h-[45vh]" />
      )}
    </section>
  );
}
