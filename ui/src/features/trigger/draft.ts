import { create } from "@bufbuild/protobuf";
import { CreateTriggerRequestSchema, TriggerKind, type CreateTriggerRequest } from "@/gen/deckhand/v1/trigger_pb";
import { senders } from "@/gen/facts";
import { parseDuration } from "./words";

// Draft is what the form for a new trigger holds.
export type Draft = {
  kind: "webhook" | "cron" | "loop";
  name: string;
  agent: string;
  goal: string;
  filter: string;
  overlap: string;
  // Of a webhook: a sender that the hub knows, or how it proves itself.
  sender: string;
  // Of a schedule.
  schedule: string;
  timeZone: string;
  missed: string;
  // Of a loop.
  pause: string;
  maxRuns: string;
  budget: string;
};

export const emptyDraft = (agent: string, timeZone: string): Draft => ({
  kind: "webhook",
  name: "",
  agent,
  goal: "",
  filter: "",
  overlap: "",
  sender: "github",
  schedule: "0 6 * * *",
  timeZone,
  missed: "",
  pause: "10m",
  maxRuns: "",
  budget: "10",
});

export type Problems = Partial<Record<keyof Draft, string>>;

// problemsOf says what the hub would not take, by field.
export function problemsOf(d: Draft): Problems {
  const problems: Problems = {};
  if (!/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(d.name)) problems.name = "lower-case letters, digits and dashes, beginning with a letter";
  if (!d.agent) problems.agent = "choose the agent that it starts";
  if (d.kind === "cron") {
    const fields = d.schedule.trim();
    if (!/^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$/.test(fields) && fields.split(/\s+/).length !== 5) {
      problems.schedule = "five fields (minute, hour, day, month, weekday), or @daily and its like";
    }
  }
  if (d.kind === "loop") {
    if (!parseDuration(d.pause)) problems.pause = "a length of time, such as 90s, 10m or 2h";
    if (d.maxRuns && !/^\d{1,9}$/.test(d.maxRuns)) problems.maxRuns = "a whole number, or empty for no end";
    if (!/^\d+(\.\d{1,6})?$/.test(d.budget)) problems.budget = "US dollars, such as 10 or 2.50";
  }
  return problems;
}

// requestOf is what the hub is asked for. It holds only for a draft without
// problems.
export function requestOf(d: Draft, secret = ""): CreateTriggerRequest {
  const what = { name: d.name, agentId: d.agent };
  const spec = { goal: d.goal.trim(), overlap: d.overlap };
  if (d.kind === "webhook") {
    const preset = senders.find((s) => s.name === d.sender)?.preset ?? false;
    return create(CreateTriggerRequestSchema, {
      ...what,
      kind: TriggerKind.WEBHOOK,
      secret,
      preset: preset ? d.sender : "",
      spec: { ...spec, filter: d.filter.trim(), webhook: preset ? {} : { verify: d.sender } },
    });
  }
  if (d.kind === "cron") {
    return create(CreateTriggerRequestSchema, {
      ...what,
      kind: TriggerKind.CRON,
      spec: { ...spec, cron: { schedule: d.schedule.trim(), timeZone: d.timeZone.trim(), missed: d.missed } },
    });
  }
  return create(CreateTriggerRequestSchema, {
    ...what,
    kind: TriggerKind.LOOP,
    spec: {
      ...spec,
      loop: { pause: parseDuration(d.pause), maxRuns: BigInt(d.maxRuns || 0), budgetMicros: BigInt(Math.round(Number(d.budget) * 1e6)) },
    },
  });
}
