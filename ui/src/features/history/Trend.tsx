import { lazy, Suspense, useMemo } from "react";
import { dollars } from "@/components/money";
import { Skeletons } from "@/components/Skeleton";
import { duration } from "@/components/Time";
import type { StatisticsRow } from "@/gen/deckhand/v1/history_pb";
import { spanMillis } from "./words";

const Chart = lazy(() => import("@/components/Chart").then((m) => ({ default: m.Chart })));

// trendOf returns what statistics by day say over time: the share of ended tasks that
// succeeded, in per cent, the median time and the cost of each day, the oldest first.
export function trendOf(rows: readonly StatisticsRow[]) {
  const days = [...rows].sort((a, b) => (a.key < b.key ? -1 : 1));
  return {
    times: days.map((r) => Date.parse(`${r.key}T00:00:00Z`) / 1000),
    rate: days.map((r) => (r.tasks > r.live ? (100 * Number(r.succeeded)) / Number(r.tasks - r.live) : null)),
    took: days.map((r) => spanMillis(r.durationP50) ?? null),
    cost: days.map((r) => Number(r.usage?.costMicros ?? 0n)),
  };
}

// Trend draws statistics by day.
export function Trend({ rows }: { rows: StatisticsRow[] }) {
  const { times, rate, took, cost } = useMemo(() => trendOf(rows), [rows]);
  return (
    <div className="grid gap-3 pb-4 lg:grid-cols-3">
      <Suspense fallback={<Skeletons rows={3} className="h-10 w-full" />}>
        <Chart days label="Success rate" times={times} values={rate} format={(v) => `${Math.round(v)} %`} />
        <Chart days label="Median duration" times={times} values={took} format={duration} />
        <Chart days label="Cost" times={times} values={cost} format={dollars} />
      </Suspense>
    </div>
  );
}
