import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { UsageForecastSchema, UsageRowSchema } from "@/gen/deckhand/v1/provider_pb";
import { drawn } from "./SpendPanel";
import { exact, seriesOf, shownParts, summed, tick, timesOf } from "./series";

const row = (key: string, part: string, cost: bigint) => create(UsageRowSchema, { key, part, usage: { costMicros: cost } });

describe("the series of what models cost", () => {
  const times = timesOf("day", new Date("2026-11-01T05:00:00Z"), new Date("2026-11-03T12:00:00Z"));

  it("has every day of the time, and sums that are those of the report to the micro-dollar", () => {
    expect(times).toEqual(["2026-11-01", "2026-11-02", "2026-11-03"]);
    expect(timesOf("hour", new Date("2026-11-01T23:30:00Z"), new Date("2026-11-02T01:00:00Z"))).toEqual(["2026-11-01T23", "2026-11-02T00", "2026-11-02T01"]);
    // More than a number holds exactly, and more parts than are drawn.
    const rows = Array.from({ length: 40 }, (_, i) => row(times[i % 3]!, `agent-${i % 20}`, 9_007_199_254_740_993n + BigInt(i)));
    const series = seriesOf(rows, times);
    const report = rows.reduce((sum, r) => sum + r.usage!.costMicros, 0n);
    expect(series.total).toBe(report);
    expect(series.parts.reduce((sum, p) => sum + p.total, 0n)).toBe(report);
    expect(series.parts.flatMap((p) => p.values).reduce((sum, v) => sum + v, 0n)).toBe(report);
    expect(summed(series).at(-1)).toBe(report);
    expect(series.parts).toHaveLength(shownParts + 1);
    expect(series.parts.at(-1)!.name).toBe("13 others");
  });

  it("names days and hours on its axis in UTC, as they are summed", () => {
    const at = Date.UTC(2026, 9, 28, 14) / 1000;
    expect(tick(at, 86_400)).toBe("28 Oct");
    expect(tick(at, 3600)).toBe("14:00");
  });

  it("writes every digit that counts", () => {
    expect([0n, 1n, 1_234_567n, 2_500_000n, 1_000_000_000_001n].map(exact)).toEqual(["$0.00", "$0.000001", "$1.234567", "$2.50", "$1000000.000001"]);
  });

  it("draws the month up to its end with budget and forecast, and no forecast where it is too early", () => {
    const series = seriesOf([row("2026-11-01", "a", 1_000_000n), row("2026-11-03", "a", 2_000_000n)], times);
    const chart = drawn("month", series, create(UsageForecastSchema, { monthMicros: 30_000_000n, limitMicros: 20_000_000n }));
    expect(chart.times).toHaveLength(30);
    const [spent, budget, forecast] = chart.lines;
    expect(spent!.values.slice(0, 4)).toEqual([1, 1, 3, null]);
    expect(budget!.values).toEqual(Array(30).fill(20));
    expect([forecast!.values[1], forecast!.values[2], forecast!.values[29]]).toEqual([null, 3, 30]);
    expect(drawn("month", series, create(UsageForecastSchema, { early: true })).lines.map((l) => l.label)).toEqual(["spent"]);
  });
});
