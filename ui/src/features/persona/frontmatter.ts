import { parseDocument, type Document } from "yaml";

// TriggerSettings are what a form says of the first trigger that a persona
// names. The file may say more: that stays.
export type TriggerSettings = {
  name: string;
  kind: "webhook" | "cron" | "loop" | "manual";
  // Of a webhook: who sends, and how senders prove themselves.
  sender: string;
  // Of a schedule: five fields, and such as Europe/Berlin.
  schedule: string;
  timeZone: string;
  // Of a loop: such as 10m.
  pause: string;
  // What the agent is told; empty for its own instructions.
  goal: string;
};

// Settings are what a form shows of a persona's front matter.
export type Settings = {
  name: string;
  description: string;
  provider: string;
  model: string;
  nodes: string[];
  labels: Record<string, string>;
  // When a person is asked; "" for the default.
  mode: string;
  tools: string[];
  // The tools whose calls need approval.
  asked: string[];
  // Limits of a run, as they are written; "" for the default.
  iterations: string;
  costUsd: string;
  trigger?: TriggerSettings;
  // How many triggers the file names.
  triggers: number;
};

const whole = /^(---[ \t]*\r?\n)([\s\S]*?)(\r?\n---[ \t]*(?:\r?\n|$))/;

function read(markdown: string): { doc: Document; match: RegExpExecArray } | undefined {
  const match = whole.exec(markdown);
  if (!match) return undefined;
  const doc = parseDocument(match[2]!);
  const js: unknown = doc.errors.length === 0 ? doc.toJS() : undefined;
  return js !== null && typeof js === "object" && !Array.isArray(js) ? { doc, match } : undefined;
}

const record = (v: unknown) => (v !== null && typeof v === "object" && !Array.isArray(v) ? (v as Record<string, unknown>) : {});
const list = (v: unknown) => (Array.isArray(v) ? (v as unknown[]) : []);
const text = (v: unknown) => (typeof v === "string" || typeof v === "number" ? String(v) : "");

// settingsOf reads a persona's front matter; undefined when it has a syntax error.
export function settingsOf(markdown: string): Settings | undefined {
  const found = read(markdown);
  if (!found) return undefined;
  const js = record(found.doc.toJS());
  const nodes = record(js.nodes);
  const triggers = list(js.triggers);
  const limits = record(js.limits);
  return {
    name: text(js.name),
    description: text(js.description),
    provider: text(js.provider),
    model: text(js.model),
    nodes: list(nodes.names).map(text),
    labels: Object.fromEntries(Object.entries(record(nodes.labels)).map(([k, v]) => [k, text(v)])),
    mode: text(js.mode),
    tools: list(js.tools).map(text),
    asked: list(record(js.approvals).tools).map(text),
    iterations: text(limits.iterations),
    costUsd: text(limits.cost_usd),
    trigger: triggers.length > 0 ? triggerOf(record(triggers[0])) : undefined,
    triggers: triggers.length,
  };
}

function triggerOf(t: Record<string, unknown>): TriggerSettings {
  return {
    name: text(t.name),
    kind: "webhook" in t ? "webhook" : "cron" in t ? "cron" : "loop" in t ? "loop" : "manual",
    sender: text(t.webhook),
    schedule: text(t.cron),
    timeZone: text(t.time_zone),
    pause: text(t.pause),
    goal: text(t.goal),
  };
}

// withSettings returns the persona with some settings changed. The rest of the file,
// including comments, stays as it is. A file whose front matter has a syntax error is
// returned unchanged.
export function withSettings(markdown: string, change: Partial<Settings>): string {
  const found = read(markdown);
  if (!found) return markdown;
  const { doc, match } = found;
  for (const key of ["name", "description", "provider"] as const) {
    if (change[key] !== undefined) put(doc, [key], change[key]);
  }
  if (change.model !== undefined) put(doc, ["model"], change.model || undefined);
  if (change.mode !== undefined) put(doc, ["mode"], change.mode || undefined);
  if (change.tools) put(doc, ["tools"], flow(doc, change.tools));
  if (change.asked) putIn(doc, "approvals", "tools", change.asked.length > 0 ? flow(doc, change.asked) : undefined);
  if (change.iterations !== undefined) putIn(doc, "limits", "iterations", numeral(change.iterations));
  if (change.costUsd !== undefined) putIn(doc, "limits", "cost_usd", numeral(change.costUsd));
  if (change.nodes) put(doc, ["nodes", "names"], change.nodes.length > 0 ? flow(doc, change.nodes) : undefined);
  if (change.labels) {
    put(doc, ["nodes", "labels"], Object.keys(change.labels).length > 0 ? flow(doc, change.labels) : undefined);
  }
  if (change.nodes || change.labels) {
    if (Object.keys(record(record(doc.toJS()).nodes)).length === 0) doc.deleteIn(["nodes"]);
  }
  if ("trigger" in change) putTrigger(doc, change.trigger);
  const yaml = doc.toString({ lineWidth: 0, flowCollectionPadding: false }).replace(/\n$/, "");
  return match[1]! + yaml + match[3]! + markdown.slice(match[0].length);
}

const flow = (doc: Document, value: unknown) => doc.createNode(value, { flow: true });

// numeral is a number as YAML has it, and what is none as it was typed: the hub says what is
// wrong with it.
const numeral = (typed: string) => (typed.trim() === "" ? undefined : Number.isFinite(Number(typed)) ? Number(typed) : typed);

// putIn sets a key of a group of settings, which goes with its last key.
function putIn(doc: Document, group: string, key: string, value: unknown) {
  put(doc, [group, key], value);
  if (doc.hasIn([group]) && Object.keys(record(record(doc.toJS())[group])).length === 0) doc.deleteIn([group]);
}

function put(doc: Document, path: (string | number)[], value: unknown) {
  if (value !== undefined) doc.setIn(path, value);
  else if (doc.hasIn(path)) doc.deleteIn(path);
}

// Of a trigger, the keys that go with one kind only.
const kindKeys: Record<TriggerSettings["kind"], string[]> = {
  webhook: [
    ...["webhook", "filter", "map", "signature_header", "signature_prefix", "signature_encoding", "signature_hash"],
    ...["dedupe_header", "dedupe_key", "dedupe_window", "tolerance", "max_body", "rate"],
  ],
  cron: ["cron", "time_zone", "missed", "jitter", "max_missed"],
  loop: ["loop", "pause", "least_pause", "most_pause", "max_runs", "budget_usd"],
  manual: ["manual"],
};

function putTrigger(doc: Document, t: TriggerSettings | undefined) {
  if (!t) {
    if (doc.hasIn(["triggers", 0])) doc.deleteIn(["triggers", 0]);
    if (list(record(doc.toJS()).triggers).length === 0) put(doc, ["triggers"], undefined);
    return;
  }
  if (!doc.hasIn(["triggers", 0])) doc.setIn(["triggers"], doc.createNode([{ name: t.name }]));
  const at = (key: string) => ["triggers", 0, key];
  put(doc, at("name"), t.name);
  for (const [kind, keys] of Object.entries(kindKeys)) {
    if (kind !== t.kind) for (const key of keys) put(doc, at(key), undefined);
  }
  switch (t.kind) {
    case "webhook":
      put(doc, at("webhook"), t.sender || "token");
      break;
    case "cron":
      put(doc, at("cron"), t.schedule);
      put(doc, at("time_zone"), t.timeZone || undefined);
      break;
    case "loop":
      put(doc, at("loop"), true);
      put(doc, at("pause"), t.pause || undefined);
      break;
    case "manual":
      put(doc, at("manual"), true);
  }
  put(doc, at("goal"), t.goal || undefined);
}
