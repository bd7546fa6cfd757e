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

// problemsOf returns what is invalid, by field.
export function problemsOf(d: Draft): Problems {
  const problems: Problems = {};
  if (!/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(d.name)) problems.name = "Use lower-case letters, digits and dashes, starting with a letter.";
  if (!d.agent) problems.agent = "Choose an agent.";
  if (d.kind === "cron") {
    const fields = d.schedule.trim();
    if (!/^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$/.test(fields) && fields.split(/\s+/).length !== 5) {
      problems.schedule = "Enter five fields (minute, hour, day, month, weekday), or @daily or similar.";
    }
  }
  if (d.kind === "loop") {
    if (!parseDuration(d.pause)) problems.pause = "Enter a duration, such as 90s, 10m or 2h.";
    if (d.maxRuns && !/^\d{1,9}$/.test(d.maxRuns)) problems.maxRuns = "Enter a whole number, or leave empty for no limit.";
    if (!/^\d+(\.\d{1,6})?$/.test(d.budget)) problems.budget = "Enter an amount in US dollars, such as 10 or 2.50.";
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
