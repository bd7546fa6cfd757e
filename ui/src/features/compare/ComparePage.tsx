import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Input } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { StepBadge, TaskBadge, taskWord } from "@/components/state";
import { Cell, Row, Table } from "@/components/Table";
import { duration, millis } from "@/components/Time";
import type { Step } from "@/gen/deckhand/v1/step_pb";
import { TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import { align, type Pair } from "./align";

const route = getRouteApi("/shell/compare");
const rowsAtOnce = 200;

// ComparePage shows two runs side by side, step by step, and where they part.
export function ComparePage() {
  const { a, b } = route.useSearch();
  if (!a || !b) return <Choose a={a} b={b} />;
  return <Comparison a={a} b={b} />;
}

function Choose(props: { a?: string; b?: string }) {
  const navigate = route.useNavigate();
  const [a, setA] = useState(props.a ?? "");
  const [b, setB] = useState(props.b ?? "");
  return (
    <Page title="Compare runs">
      <form
        className="flex max-w-2xl flex-wrap items-center gap-2"
        onSubmit={(e) => {
          e.preventDefault();
          void navigate({ search: { a: a.trim() || undefined, b: b.trim() || undefined } });
        }}
      >
        <Input aria-label="First task" placeholder="task_…" className="max-w-64" value={a} onChange={(e) => setA(e.target.value)} />
        <Input aria-label="Second task" placeholder="task_…" className="max-w-64" value={b} onChange={(e) => setB(e.target.value)} />
        <Button type="submit" look="primary" disabled={!a.trim() || !b.trim()}>Compare</Button>
      </form>
      <Empty title="Choose two runs">A retry and the run it repeats, or runs of one agent with two models.</Empty>
    </Page>
  );
}

function useRun(taskId: string) {
  const task = useQuery(TaskService.method.getTask, { taskId });
  const pages = useInfiniteQuery(TaskService.method.listSteps, { taskId, pageSize: 500, pageToken: "" }, byToken);
  useRest(pages);
  const steps = useMemo(() => pages.data?.pages.flatMap((p) => p.steps) ?? [], [pages.data]);
  return { task: task.data?.task, steps, whole: pages.data !== undefined && !pages.hasNextPage, error: task.error ?? pages.error };
}

function Comparison({ a, b }: { a: string; b: string }) {
  const [one, two] = [useRun(a), useRun(b)];
  const whole = one.whole && two.whole;
  const { pairs, parted } = useMemo(() => (whole ? align(one.steps, two.steps) : { pairs: [], parted: 0 }), [whole, one.steps, two.steps]);
  const [shown, setShown] = useState(rowsAtOnce);
  const error = one.error ?? two.error;
  if (error) return <Page title="Compare runs"><Problem error={error} /></Page>;
  if (!whole || !one.task || !two.task) return <Page title="Compare runs"><Skeletons rows={8} /></Page>;
  // Equal steps at the beginning are one line.
  const skipped = Math.max(0, parted - 3);
  return (
    <Page title="Compare runs">
      <div className="space-y-4">
        <Figures a={one.task} b={two.task} />
        <p data-testid="parted">
          {parted === pairs.length ? (
            "Both runs made the same calls."
          ) : (
            <>
              The runs part at {where(pairs[parted]!)}
              {parted > 0 ? `, after ${parted} equal ${parted === 1 ? "step" : "steps"}.` : ", at their first step."}
            </>
          )}
        </p>
        <Table label="Steps of both runs" head={["Step of the first", "First run", "Step of the second", "Second run"]}>
          {skipped > 0 && (
            <Row>
              <Cell span={4} className="text-center text-xs text-dim">{skipped} equal {skipped === 1 ? "step" : "steps"} before</Cell>
            </Row>
          )}
          {pairs.slice(skipped, skipped + shown).map((p, i) => (
            <tr
              key={skipped + i}
              data-parted={skipped + i === parted || undefined}
              className={cx("border-b align-top last:border-0", skipped + i === parted && "border-t-2 border-t-warn", !p.same && "bg-warn/5")}
            >
              <Side step={p.a} task={one.task!.id} />
              <Side step={p.b} task={two.task!.id} />
            </tr>
          ))}
        </Table>
        {pairs.length > skipped + shown && (
          <Button onClick={() => setShown(shown + rowsAtOnce)}>Show {Math.min(rowsAtOnce, pairs.length - skipped - shown)} more</Button>
        )}
      </div>
    </Page>
  );
}

const where = (p: Pair) => [p.a && `step ${p.a.number} of the first`, p.b && `step ${p.b.number} of the second`].filter(Boolean).join(" and ");

const toldOf = ["command", "path", "url", "query", "pattern", "goal", "question", "summary"];

// told is a step in a line.
function told(s: Step): string {
  const args = (s.arguments ?? {}) as Record<string, unknown>;
  const name = toldOf.find((n) => typeof args[n] === "string");
  return (name ? String(args[name]) : Object.keys(args).length > 0 ? JSON.stringify(args) : "").split("\n", 1)[0]!.slice(0, 200);
}

function Side({ step, task }: { step: Step | undefined; task: string }) {
  if (!step) return <><Cell /><Cell className="text-xs text-dim">–</Cell></>;
  const exit = (step.outcome as Record<string, unknown> | undefined)?.exit_code;
  return (
    <>
      <Cell className="whitespace-nowrap">
        <Link to="/tasks/$task/replay" params={{ task }} search={{ at: step.id }} className="inline-flex min-h-6 items-center text-accent hover:underline">
          {step.number}
        </Link>
      </Cell>
      <Cell>
        <div className="flex flex-wrap items-center gap-2">
          <Literal className="font-mono text-xs" text={step.tool} /> <StepBadge state={step.state} />
          {typeof exit === "number" && exit !== 0 && <span className="text-xs text-bad">exit {exit}</span>}
        </div>
        <Literal className="font-mono text-xs break-all text-dim" text={told(step)} />
      </Cell>
    </>
  );
}

// Figures are what both runs came to, and by how much they differ.
function Figures({ a, b }: { a: Task; b: Task }) {
  const took = (t: Task) => (millis(t.finishedAt) ?? Date.now()) - (millis(t.startedAt) ?? Date.now());
  const tokens = (t: Task) => Number((t.usage?.inputTokens ?? 0n) + (t.usage?.outputTokens ?? 0n));
  const cost = (t: Task) => Number(t.usage?.costMicros ?? 0n);
  const signed = (n: number, words: (n: number) => string) => (n === 0 ? "–" : `${n > 0 ? "+" : "−"}${words(Math.abs(n))}`);
  const rows: [string, React.ReactNode, React.ReactNode, string][] = [
    ["Task", <Name key="a" of={a} />, <Name key="b" of={b} />, ""],
    ["Result", <TaskBadge key="a" task={a} />, <TaskBadge key="b" task={b} />, a.state === b.state ? "–" : `${taskWord(a.state)} → ${taskWord(b.state)}`],
    ["Agent", `${a.agentName} version ${a.agentVersion}`, `${b.agentName} version ${b.agentVersion}`, ""],
    ["Model", a.model, b.model, a.model === b.model ? "–" : "differs"],
    ["Cost", dollars(cost(a)), dollars(cost(b)), signed(cost(b) - cost(a), dollars)],
    ["Time", duration(took(a)), duration(took(b)), signed(took(b) - took(a), duration)],
    ["Iterations", a.iteration, b.iteration, signed(b.iteration - a.iteration, String)],
    ["Tokens", count(tokens(a)), count(tokens(b)), signed(tokens(b) - tokens(a), count)],
  ];
  return (
    <Table label="Results of both runs" head={["Figure", "First run", "Second run", "Difference"]}>
      {rows.map(([name, x, y, d]) => (
        <Row key={name}>
          <Cell className="text-dim">{name}</Cell>
          <Cell>{x}</Cell>
          <Cell>{y}</Cell>
          <Cell className="whitespace-nowrap">{d}</Cell>
        </Row>
      ))}
    </Table>
  );
}

function Name({ of }: { of: Task }) {
  return (
    <Link to="/tasks/$task" params={{ task: of.id }} className="inline-flex min-h-6 items-center text-accent hover:underline">
      <Literal text={of.title || of.goal || of.id} />
    </Link>
  );
}
