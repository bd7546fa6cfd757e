import type { Budget } from "@/gen/deckhand/v1/provider_pb";

// share returns the fraction of a limit that is spent or reserved; undefined without
// a limit.
export function share(b: Budget): number | undefined {
  if (b.limitMicros === undefined) return undefined;
  const used = Number(b.spentMicros + b.reservedMicros);
  return b.limitMicros === 0n ? 1 : used / Number(b.limitMicros);
}

// parseDollars reads US dollars, such as "12.50", in millionths; undefined for
// what is none.
export function parseDollars(text: string): bigint | undefined {
  const found = /^\s*\$?(\d{1,9})(?:\.(\d{1,6}))?\s*$/.exec(text);
  return found ? BigInt(found[1]!) * 1_000_000n + BigInt((found[2] ?? "").padEnd(6, "0")) : undefined;
}

export const everyWords: Record<string, string> = { "": "in total", day: "per day", month: "per month" };
export const scopes = ["organisation", "user", "task", "lineage"] as const;
export type Scope = (typeof scopes)[number];
