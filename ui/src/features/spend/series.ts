import type { UsageRow } from "@/gen/deckhand/v1/provider_pb";

// Part is what one agent, user or model cost at each of the times, in micro-dollars.
export type Part = { name: string; values: bigint[]; total: bigint };
export type Series = { times: string[]; parts: Part[]; total: bigint };

// shownParts are drawn each; the rest is one part.
export const shownParts = 7;
export const rest = "others";

// timesOf returns the hours or days, as reports name them in UTC, from one time up to and
// including another.
export function timesOf(by: "hour" | "day", from: Date, to: Date): string[] {
  const out: string[] = [];
  const step = by === "hour" ? 3_600_000 : 86_400_000;
  for (let t = Math.floor(from.getTime() / step) * step; t <= to.getTime(); t += step) {
    out.push(new Date(t).toISOString().slice(0, by === "hour" ? 13 : 10));
  }
  return out;
}

// seriesOf makes the series of a report that is split: the dearest parts first. Nothing is
// lost: the sum of all values is that of the rows.
export function seriesOf(rows: readonly UsageRow[], times: string[]): Series {
  const at = new Map(times.map((t, i) => [t, i]));
  const all = new Map<string, Part>();
  let total = 0n;
  for (const row of rows) {
    const i = at.get(row.key);
    if (i === undefined) continue;
    const name = row.part || "(none)";
    let part = all.get(name);
    if (!part) all.set(name, (part = { name, values: times.map(() => 0n), total: 0n }));
    const cost = row.usage?.costMicros ?? 0n;
    part.values[i] = part.values[i]! + cost;
    part.total += cost;
    total += cost;
  }
  const sorted = [...all.values()].sort((a, b) => (a.total === b.total ? (a.name < b.name ? -1 : 1) : a.total < b.total ? 1 : -1));
  const parts = sorted.slice(0, shownParts);
  const more = sorted.slice(shownParts);
  if (more.length > 0) {
    parts.push({
      name: `${more.length} ${rest}`,
      values: times.map((_, i) => more.reduce((sum, p) => sum + p.values[i]!, 0n)),
      total: more.reduce((sum, p) => sum + p.total, 0n),
    });
  }
  return { times, parts, total };
}

// summed returns the running sum of all parts.
export function summed(s: Series): bigint[] {
  let sum = 0n;
  return s.times.map((_, i) => (sum += s.parts.reduce((n, p) => n + p.values[i]!, 0n)));
}

// exact writes micro-dollars with all their digits: "$1.234567".
export function exact(micros: bigint): string {
  const digits = (micros % 1_000_000n).toString().padStart(6, "0").replace(/0{1,4}$/, "");
  return `$${micros / 1_000_000n}.${digits}`;
}

// day is its length in seconds.
export const day = 24 * 3600;

// tick is a time on the axis of a chart whose bars are so many seconds apart, in UTC as the sums are: 14:00, or 28 Oct.
export const tick = (at: number, step: number) =>
  new Date(at * 1000).toLocaleString("en-GB", step < day ? { timeZone: "UTC", hour: "2-digit", minute: "2-digit" } : { timeZone: "UTC", day: "numeric", month: "short" });
