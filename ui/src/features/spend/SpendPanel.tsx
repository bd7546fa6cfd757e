import { useQuery } from "@connectrpc/connect-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { Select } from "@/components/Field";
import { dollars } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { absolute, millis } from "@/components/Time";
import { BudgetService, type UsageForecast } from "@/gen/deckhand/v1/provider_pb";
import { exact, seriesOf, summed, timesOf, type Part } from "./series";

const Bars = lazy(() => import("./Bars").then((m) => ({ default: m.Bars })));

const spans = { hours: "Last 24 hours", days: "Last 30 days", month: "This month, total" } as const;
type Span = keyof typeof spans;
const splits = ["agent", "model", "user"] as const;
type Split = (typeof splits)[number];

// Told apart from each other, in both themes and by most colour-blind people.
const colours = ["#3b82c4", "#d9822b", "#2a9d6f", "#b0569c", "#8a7a1f", "#5c6bc0", "#c0504d", "#7a8691"];
const day = 86_400_000;
const hour = 3_600_000;

// SpendPanel is what models cost over time, in parts, with the month's budget and what the
// month is likely to cost.
export function SpendPanel(props: { open?: boolean }) {
  const [span, setSpan] = useState<Span>("days");
  const [split, setSplit] = useState<Split>("agent");
  // Nothing is asked for while it is closed.
  const [open, setOpen] = useState(props.open ?? false);
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)} className="rounded-lg border bg-panel">
      <summary className="flex cursor-pointer flex-wrap items-center gap-2 px-4 py-2 font-semibold">Spend</summary>
      <div className="space-y-3 px-4 pb-4">
        <div className="flex flex-wrap gap-2">
          <Select aria-label="Time of the spend chart" value={span} onChange={(e) => setSpan(e.target.value as Span)}>
            {Object.entries(spans).map(([key, words]) => <option key={key} value={key}>{words}</option>)}
          </Select>
          <Select aria-label="Split the spend chart by" value={split} onChange={(e) => setSplit(e.target.value as Split)}>
            {splits.map((s) => <option key={s} value={s}>By {s}</option>)}
          </Select>
        </div>
        {open && <Chart span={span} split={split} />}
      </div>
    </details>
  );
}

const stamp = (t: Date) => ({ seconds: BigInt(Math.floor(t.getTime() / 1000)), nanos: 0 });

function Chart({ span, split }: { span: Span; split: Split }) {
  const navigate = useNavigate();
  const by = span === "hours" ? "hour" : "day";
  // The same for an hour, so that the same is not asked for again and again.
  const now = Math.floor(Date.now() / hour) * hour;
  const [from, times] = useMemo(() => {
    const at = new Date(now);
    const begin =
      span === "hours" ? new Date(now - 23 * hour) : span === "days" ? new Date(Math.floor(now / day) * day - 29 * day) : new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1));
    return [begin, timesOf(by, begin, at)] as const;
  }, [span, by, now]);
  const { data, error, isPending, refetch } = useQuery(
    BudgetService.method.getUsageReport,
    { by, split, since: stamp(from) },
    { refetchInterval: 30_000 },
  );
  const series = useMemo(() => seriesOf(data?.rows ?? [], times), [data, times]);
  const chart = useMemo(() => drawn(span, series, data?.forecast), [span, series, data]);
  if (isPending) return <Skeletons rows={3} className="h-12 w-full" />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  const pick = (i: number) => {
    const date = times[i]?.slice(0, 10);
    if (date) void navigate({ to: "/tasks", search: { from: date, to: date } });
  };
  return (
    <>
      <p data-testid="spend-total">
        {exact(series.total)} {span === "hours" ? "in the last 24 hours" : span === "days" ? "in the last 30 days" : "this month"}.{" "}
        <Outlook of={data.forecast} />
      </p>
      <Suspense fallback={<Skeletons rows={3} className="h-12 w-full" />}>
        <Bars
          label={`Spend per ${span === "month" ? "day, running total" : by}, by ${split}; the table has the figures`}
          times={chart.times}
          parts={chart.parts}
          lines={chart.lines}
          onPick={pick}
        />
      </Suspense>
      <Legend parts={series.parts} split={split} />
    </>
  );
}

// Outlook says what the month is likely to cost.
export function Outlook({ of: f }: { of: UsageForecast | undefined }) {
  if (!f) return null;
  const reached = millis(f.reachedAt);
  const limit = f.limitMicros === undefined ? "" : ` Budget: ${dollars(f.limitMicros)}`;
  const words = f.early
    ? "Forecast: too early to tell (it takes three days of use)."
    : `Forecast: ${dollars(f.monthMicros)} by the end of the month, at ${dollars(f.dailyMicros)} a day.`;
  return (
    <span className="text-dim">
      {words}
      {limit}
      {limit && (reached !== undefined ? <span className="text-warn">, reached on {absolute(reached)}.</span> : ".")}
    </span>
  );
}

type Drawn = { times: number[]; parts: { name: string; values: number[]; colour: string }[]; lines: { label: string; values: (number | null)[]; colour: string; dash?: number[] }[] };

// drawn is a chart's data: bars by time, or the running total of the month up to its end
// with budget and forecast.
export function drawn(span: Span, s: { times: string[]; parts: Part[]; total: bigint }, f: UsageForecast | undefined): Drawn {
  const seconds = (t: string) => Date.parse(t.length === 13 ? `${t}:00:00Z` : `${t}T00:00:00Z`) / 1000;
  const usd = (v: bigint) => Number(v) / 1e6;
  if (span !== "month") {
    return { times: s.times.map(seconds), parts: s.parts.map((p, i) => ({ name: p.name, values: p.values.map(usd), colour: colours[i] ?? "gray" })), lines: [] };
  }
  const first = new Date(`${s.times[0] ?? "1970-01-01"}T00:00:00Z`);
  const days = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate();
  const times = Array.from({ length: days }, (_, i) => (first.getTime() + i * day) / 1000);
  const sums = summed({ ...s, parts: s.parts });
  const today = s.times.length - 1;
  const lines: Drawn["lines"] = [{ label: "spent", values: times.map((_, i) => (i <= today ? usd(sums[i]!) : null)), colour: "--accent" }];
  if (f?.limitMicros !== undefined) lines.push({ label: "budget", values: times.map(() => usd(f.limitMicros!)), colour: "--bad", dash: [6, 4] });
  if (f && !f.early && today >= 0) {
    const [begin, end] = [usd(sums[today]!), usd(f.monthMicros)];
    lines.push({
      label: "forecast",
      values: times.map((_, i) => (i < today ? null : begin + ((end - begin) * (i - today)) / Math.max(1, days - 1 - today))),
      colour: "--dim",
      dash: [3, 3],
    });
  }
  return { times, parts: [], lines };
}

function Legend({ parts, split }: { parts: Part[]; split: Split }) {
  if (parts.length === 0) return <p className="text-dim">No calls of models in this time.</p>;
  return (
    <Table label="Spend by part" head={[split === "agent" ? "Agent" : split === "model" ? "Model" : "User", "Spent"]}>
      {parts.map((p, i) => (
        <Row key={p.name}>
          <Cell>
            <span className="flex items-center gap-2">
              <span aria-hidden className="size-3 shrink-0 rounded-sm" style={{ background: colours[i] }} />
              {split === "agent" && !/^\d+ others$/.test(p.name) ? (
                <Link to="/tasks" search={{ agent: p.name }} className="inline-flex min-h-6 items-center text-accent hover:underline">{p.name}</Link>
              ) : (
                p.name
              )}
            </span>
          </Cell>
          <Cell className="font-mono text-xs">{exact(p.total)}</Cell>
        </Row>
      ))}
    </Table>
  );
}
