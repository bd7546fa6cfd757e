import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { DestinationSpecSchema, type Destination, type DestinationSpec } from "@/gen/deckhand/v1/destination_pb";

export const kinds = ["webhook", "slack", "email", "nats"] as const;
export type Kind = (typeof kinds)[number];

// groups are what a destination can be told of, in the hub's words.
export const groups = ["approvals", "questions", "failures", "budgets", "escalations", "security", "lifecycle", "stream"] as const;

// Draft is what the form of a destination holds. Secrets are not in it.
export type Draft = {
  kind: Kind;
  name: string;
  events: string[];
  // By name, with commas.
  agents: string;
  url: string;
  host: string;
  port: string;
  security: string;
  username: string;
  from: string;
  to: string;
};

const empty: Draft = { kind: "webhook", name: "", events: [], agents: "", url: "", host: "", port: "", security: "", username: "", from: "", to: "" };

// draftOf returns the form of an existing destination, or of a new one.
export function draftOf(d: Destination | undefined): Draft {
  if (!d) return empty;
  const to = d.spec?.to;
  const draft = { ...empty, kind: kinds.find((k) => k === d.kind) ?? "webhook", name: d.name, events: d.spec?.events ?? [], agents: d.spec?.agents.join(", ") ?? "" };
  if (to?.case === "webhook") return { ...draft, url: to.value.url };
  if (to?.case !== "email") return draft;
  const { host, port, security, username, from } = to.value;
  return { ...draft, host, port: port ? String(port) : "", security, username, from, to: to.value.to.join(", ") };
}

const list = (text: string) => text.split(/[\s,]+/).filter(Boolean);

export type Problems = Partial<Record<keyof Draft, string>>;

// problemsOf returns what is invalid, by field.
export function problemsOf(d: Draft): Problems {
  const problems: Problems = {};
  if (!/^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/.test(d.name)) problems.name = "Use lower-case letters, digits and dashes.";
  if (d.kind === "webhook" && !URL.canParse(d.url)) problems.url = "Enter a complete URL, such as https://hooks.example.com/deckhand.";
  if (d.kind === "email") {
    if (!d.host.trim()) problems.host = "Enter the host name of the mail server.";
    if (d.port && !(/^\d{1,5}$/.test(d.port) && Number(d.port) <= 65535)) problems.port = "Enter a number up to 65535, or leave empty.";
    if (!d.from.includes("@")) problems.from = "Enter an email address.";
    if (list(d.to).length === 0) problems.to = "Enter at least one email address.";
  }
  return problems;
}

// specOf is what the hub is asked for. It keeps events of a destination that are
// no group, and what agents may send to stored. It holds only for a draft without problems.
export function specOf(d: Draft, stored?: DestinationSpec): DestinationSpec {
  const to: Record<Kind, MessageInitShape<typeof DestinationSpecSchema>["to"]> = {
    webhook: { case: "webhook", value: { url: d.url.trim() } },
    slack: { case: "slack", value: {} },
    email: {
      case: "email",
      value: { host: d.host.trim(), port: Number(d.port || 0), security: d.security, username: d.username.trim(), from: d.from.trim(), to: list(d.to) },
    },
    nats: { case: "nats", value: {} },
  };
  return create(DestinationSpecSchema, { events: d.events, agents: list(d.agents), to: to[d.kind], forAgents: stored?.forAgents });
}
