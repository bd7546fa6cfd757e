import { lazy, Suspense, useMemo } from "react";
import { dollars } from "@/components/money";
import { Skeletons } from "@/components/Skeleton";
import { duration } from "@/components/Time";
import type { StatisticsRow } from "@/gen/deckhand/v1/history_pb";
import { spanMillis } from "./words";

const Chart = lazy(() => import("@/components/Chart").then((m) => ({ default: m.Chart })));

// dayOf returns when a day or a week (2026-W48, by ISO 8601) begins, in seconds.
export function dayOf(key: string): number {
  const week = /^(\d{4})-W(\d{2})$/.exec(key);
  if (!week) return Date.parse(`${key}T00:00:00Z`) / 1000;
  const fourth = new Date(Date.UTC(Number(week[1]), 0, 4)); // always in the first week
  const monday = fourth.getTime() - ((fourth.getUTCDay() + 6) % 7) * 86_400_000;
  return (monday + (Number(week[2]) - 1) * 7 * 86_400_000) / 1000;
}

// trendOf returns what statistics by day or week say over time: the share of ended tasks that
// succeeded, in per cent, the median time and the cost of each day, the oldest first.
export function trendOf(rows: readonly StatisticsRow[]) {
  const days = [...rows].sort((a, b) => (a.key < b.key ? -1 : 1));
  return {
    times: days.map((r) => dayOf(r.key)),
    rate: days.map((r) => (r.tasks > r.live ? (100 * Number(r.succeeded)) / Number(r.tasks - r.live) : null)),
    took: days.map((r) => spanMillis(r.durationP50) ?? null),
    high: days.map((r) => spanMillis(r.durationP90) ?? null),
    cost: days.map((r) => Number(r.usage?.costMicros ?? 0n)),
  };
}

// Trend draws statistics by day or week.
export function Trend({ rows }: { rows: StatisticsRow[] }) {
  const { times, rate, took, high, cost } = useMemo(() => trendOf(rows), [rows]);
  return (
    <div className="grid gap-3 pb-4 lg:grid-cols-4">
      <Suspense fallback={<Skeletons rows={3} className="h-10 w-full" />}>
        <Chart days label="Success rate" times={times} values={rate} format={(v) => `${Math.round(v)} %`} />
        <Chart days label="Median duration" times={times} values={took} format={duration} />
        <Chart days label="90th percentile of duration" times={times} values={high} format={duration} />
        <Chart days label="Cost" times={times} values={cost} format={dollars} />
      </Suspense>
    </div>
  );
}
