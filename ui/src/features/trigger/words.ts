import type { Duration } from "@bufbuild/protobuf/wkt";
import type { Tone } from "@/components/Badge";
import { duration } from "@/components/Time";
import { DeliveryState, TriggerKind, TriggerState, type Trigger } from "@/gen/deckhand/v1/trigger_pb";

type Look = { word: string; tone: Tone };

export const kinds: Record<TriggerKind, string> = {
  [TriggerKind.UNSPECIFIED]: "unknown",
  [TriggerKind.WEBHOOK]: "webhook",
  [TriggerKind.CRON]: "schedule",
  [TriggerKind.LOOP]: "loop",
  [TriggerKind.MANUAL]: "manual",
};

export const triggerLooks: Record<TriggerState, Look> = {
  [TriggerState.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [TriggerState.ENABLED]: { word: "enabled", tone: "good" },
  [TriggerState.DISABLED]: { word: "disabled", tone: "neutral" },
  [TriggerState.TRIPPED]: { word: "tripped: limit reached", tone: "bad" },
};

export const deliveryLooks: Record<DeliveryState, Look> = {
  [DeliveryState.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [DeliveryState.ACCEPTED]: { word: "accepted", tone: "info" },
  [DeliveryState.DUPLICATE]: { word: "duplicate", tone: "neutral" },
  [DeliveryState.FILTERED]: { word: "filtered", tone: "neutral" },
  [DeliveryState.FAILED]: { word: "failed", tone: "bad" },
  [DeliveryState.STARTED]: { word: "started", tone: "good" },
};

// outcomes are the words by which addresses filter deliveries.
export const outcomes = ["started", "filtered", "failed", "duplicate", "accepted"] as const;
export type Outcome = (typeof outcomes)[number];

export const outcomeStates: Record<Outcome, DeliveryState> = {
  started: DeliveryState.STARTED,
  filtered: DeliveryState.FILTERED,
  failed: DeliveryState.FAILED,
  duplicate: DeliveryState.DUPLICATE,
  accepted: DeliveryState.ACCEPTED,
};

// TriggersSearch is what the list's address says.
export type TriggersSearch = { agent?: string };
// TriggerSearch is what a trigger's address says: which part is shown, which
// deliveries, and which one of them in full.
export type TriggerSearch = { tab?: "try"; outcome?: Outcome; delivery?: string };

export const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 200) : undefined);

export function parseTriggerSearch(search: Record<string, unknown>): TriggerSearch {
  return {
    tab: search.tab === "try" ? "try" : undefined,
    outcome: outcomes.find((o) => o === search.outcome),
    delivery: text(search.delivery),
  };
}

const seconds: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 };

// parseDuration reads "90s", "5m", "2h" or "1d"; undefined for what is none.
export function parseDuration(value: string): { seconds: bigint } | undefined {
  const found = /^\s*(\d{1,9})\s*([smhd])\s*$/.exec(value);
  return found ? { seconds: BigInt(Number(found[1]) * seconds[found[2]!]!) } : undefined;
}

const length = (d: Duration | undefined, none: string) => (d ? duration(Number(d.seconds) * 1000) : none);

// whenOf describes when a trigger fires.
export function whenOf(t: Trigger): string {
  const spec = t.spec;
  if (t.kind === TriggerKind.WEBHOOK) return `webhook request${spec?.webhook?.verify ? ` (verified by ${spec.webhook.verify})` : ""}`;
  if (t.kind === TriggerKind.CRON) return `${spec?.cron?.schedule ?? ""} ${spec?.cron?.timeZone || "UTC"}`;
  if (t.kind === TriggerKind.LOOP) return `${length(spec?.loop?.pause, "1 min")} after each run`;
  return "manual start";
}

// mappingText writes a mapping for people to edit: one "name = CEL" a line.
export function mappingText(mapping: Record<string, string>): string {
  return Object.entries(mapping)
    .map(([name, cel]) => `${name} = ${cel.replaceAll("\n", " ")}`)
    .join("\n");
}

// parseMapping reads such lines; a string is what is wrong with them.
export function parseMapping(value: string): Record<string, string> | string {
  const mapping: Record<string, string> = {};
  for (const line of value.split("\n").map((l) => l.trim())) {
    if (!line) continue;
    const found = /^([A-Za-z_][A-Za-z0-9_]{0,39})\s*=\s*(\S.*)$/.exec(line);
    if (!found) return `"${line.slice(0, 60)}" is not of the form name = CEL`;
    mapping[found[1]!] = found[2]!;
  }
  return mapping;
}

// bodyText is a body as a person reads it: JSON indented, anything else as it
// came, and bytes that are no text by their number.
export function bodyText(body: Uint8Array): string {
  let raw: string;
  try {
    raw = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return `${body.length} bytes of binary data`;
  }
  try {
    return JSON.stringify(JSON.parse(raw), null, 2);
  } catch {
    return raw;
  }
}
