import { create } from "@bufbuild/protobuf";
import { DurationSchema, type Duration } from "@bufbuild/protobuf/wkt";
import { TriggerSpecSchema, type Trigger, type TriggerSpec } from "@/gen/deckhand/v1/trigger_pb";
import { senders } from "@/gen/facts";
import { parseDuration } from "./words";

// verifies are how senders prove themselves.
export const verifies = senders.filter((s) => s.proof).map((s) => s.name);

// Settings are what people change of a trigger that there is, as they type it.
export type Settings = {
  overlap: string;
  attended: boolean;
  schedule: string;
  timeZone: string;
  missed: string;
  pause: string;
  maxRuns: string;
  budget: string;
  verify: string;
  signatureHeader: string;
  tolerance: string;
  dedupeHeader: string;
  rate: string;
};

// typed writes a duration as parseDuration reads it.
function typed(d: Duration | undefined): string {
  const s = Number(d?.seconds ?? 0);
  if (s === 0) return d ? "0s" : "";
  for (const [size, unit] of [[86_400, "d"], [3_600, "h"], [60, "m"]] as const) if (s % size === 0) return `${s / size}${unit}`;
  return `${s}s`;
}

export function settingsOf(t: Trigger): Settings {
  const { cron, loop, webhook } = t.spec ?? {};
  return {
    overlap: t.spec?.overlap ?? "",
    attended: t.spec?.attended ?? false,
    schedule: cron?.schedule ?? "",
    timeZone: cron?.timeZone ?? "",
    missed: cron?.missed ?? "",
    pause: typed(loop?.pause),
    maxRuns: loop?.maxRuns ? String(loop.maxRuns) : "",
    budget: loop?.budgetMicros === undefined ? "" : String(Number(loop.budgetMicros) / 1e6),
    verify: webhook?.verify ?? "",
    signatureHeader: webhook?.signatureHeader ?? "",
    tolerance: typed(webhook?.tolerance),
    dedupeHeader: webhook?.dedupeHeader ?? "",
    rate: webhook?.ratePerMinute ? String(webhook.ratePerMinute) : "",
  };
}

// settingProblems returns what is invalid, by field.
export function settingProblems(s: Settings, t: Trigger): Partial<Record<keyof Settings, string>> {
  const problems: Partial<Record<keyof Settings, string>> = {};
  const span = "Enter a duration, such as 90s, 10m or 2h.";
  if (t.spec?.cron && !/^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$/.test(s.schedule.trim()) && s.schedule.trim().split(/\s+/).length !== 5) {
    problems.schedule = "Enter five fields (minute, hour, day, month, weekday), or @daily or similar.";
  }
  if (t.spec?.loop) {
    if (s.pause && !parseDuration(s.pause)) problems.pause = span;
    if (s.maxRuns && !/^\d{1,9}$/.test(s.maxRuns)) problems.maxRuns = "Enter a whole number, or leave empty for no limit.";
    if (s.budget && !/^\d+(\.\d{1,6})?$/.test(s.budget)) problems.budget = "Enter an amount in US dollars, such as 10 or 2.50.";
  }
  if (t.spec?.webhook) {
    if (s.tolerance && !parseDuration(s.tolerance)) problems.tolerance = span;
    if (!/^[A-Za-z0-9-]{0,100}$/.test(s.dedupeHeader)) problems.dedupeHeader = "Enter the name of a header.";
    if (!/^[A-Za-z0-9-]{0,100}$/.test(s.signatureHeader)) problems.signatureHeader = "Enter the name of a header.";
    if (s.rate && !/^\d{1,6}$/.test(s.rate)) problems.rate = "Enter a whole number, or leave empty.";
  }
  return problems;
}

const span = (text: string) => (text ? create(DurationSchema, parseDuration(text)) : undefined);

// change puts settings without problems into a spec; what they do not name stays.
export function change(spec: TriggerSpec | undefined, s: Settings): TriggerSpec {
  const to = spec ?? create(TriggerSpecSchema);
  to.overlap = s.overlap;
  to.attended = s.attended;
  if (to.cron) Object.assign(to.cron, { schedule: s.schedule.trim(), timeZone: s.timeZone.trim(), missed: s.missed });
  if (to.loop) {
    to.loop.pause = span(s.pause);
    to.loop.maxRuns = BigInt(s.maxRuns || 0);
    to.loop.budgetMicros = s.budget ? BigInt(Math.round(Number(s.budget) * 1e6)) : undefined;
  }
  if (to.webhook) {
    Object.assign(to.webhook, { verify: s.verify, signatureHeader: s.signatureHeader, dedupeHeader: s.dedupeHeader, ratePerMinute: Number(s.rate || 0) });
    to.webhook.tolerance = span(s.tolerance);
  }
  return to;
}
