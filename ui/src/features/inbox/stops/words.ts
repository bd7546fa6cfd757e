import { bytes, dollars } from "@/components/money";
import { duration } from "@/components/Time";
import type { InboxStop } from "@/gen/deckhand/v1/inbox_pb";

const limits: Record<string, string> = {
  iterations: "iterations",
  active_time: "active time",
  tokens: "tokens",
  calls: "model calls",
  cost_usd: "cost",
  files: "changed files",
  file_size: "file size",
};

// limitWord is a limit of a run as people call it.
export const limitWord = (name: string) => limits[name] ?? name;

// amount writes a value of a limit in its unit.
export function amount(name: string, value: bigint): string {
  if (name === "cost_usd") return dollars(value);
  if (name === "active_time") return duration(Number(value) * 1000);
  if (name === "file_size") return bytes(Number(value));
  return Number(value).toLocaleString("en");
}

// more says how much more a run gets with another limit.
export function more(stop: InboxStop, to: bigint): string {
  const added = amount(stop.limitName, to - stop.limitMost);
  if (stop.limitName === "cost_usd") return `Let it spend ${added} more`;
  if (stop.limitName === "active_time") return `Let it run ${added} longer`;
  if (stop.limitName === "file_size") return `Let a file be ${added} larger`;
  return `Let it have ${added} more ${limitWord(stop.limitName)}`;
}

// budgetName names a budget: "the organisation's budget for today".
export function budgetName(stop: InboxStop): string {
  const whose = stop.scope === "organisation" ? "the organisation" : `${stop.scope} ${stop.objectId}`;
  return stop.period ? `${whose} for ${stop.period}` : whose;
}

// hostOf is the refused host as a rule names it.
export const hostOf = (stop: InboxStop) => stop.change?.rule || (stop.port === 443 || stop.port === 80 ? stop.host : `${stop.host}:${stop.port}`);

// ratio and unit of what a person types for a limit: dollars and minutes, and not
// micro-dollars and seconds.
export function typed(name: string): { factor: number; unit: string } {
  if (name === "cost_usd") return { factor: 1_000_000, unit: "US dollars" };
  if (name === "active_time") return { factor: 60, unit: "minutes" };
  if (name === "file_size") return { factor: 1 << 20, unit: "MiB" };
  return { factor: 1, unit: limitWord(name) };
}
