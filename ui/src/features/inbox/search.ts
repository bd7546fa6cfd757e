import { InboxKind, InboxOrder, InboxSnoozed, InboxState } from "@/gen/deckhand/v1/inbox_pb";

// InboxSearch is what of the inbox shows, as it stands in the address.
export type InboxSearch = {
  // The item that is open.
  item?: string;
  // Also items that were answered, have expired or were withdrawn.
  all?: boolean;
  // Only items that one has snoozed.
  snoozed?: boolean;
  kind?: string[];
  agent?: string;
  task?: string;
  // Only calls in which something dangerous was recognised.
  danger?: boolean;
  // Only items of one's own tasks and agents.
  mine?: boolean;
  q?: string;
};

const every = [InboxState.OPEN, InboxState.ANSWERED, InboxState.EXPIRED, InboxState.WITHDRAWN];

// The kinds, by their names in the address.
export const kindNames: Record<string, InboxKind> = {
  approval: InboxKind.APPROVAL,
  question: InboxKind.QUESTION,
  unknown: InboxKind.UNKNOWN,
  review: InboxKind.REVIEW,
  escalation: InboxKind.ESCALATION,
  limit: InboxKind.LIMIT,
  budget: InboxKind.BUDGET,
  suspended: InboxKind.SUSPENDED,
  egress: InboxKind.EGRESS,
  provider: InboxKind.PROVIDER,
  credential: InboxKind.CREDENTIAL,
};

const text = (v: unknown, most: number) => (typeof v === "string" && v ? v.slice(0, most) : undefined);
const flag = (v: unknown) => (v === true ? true : undefined);

// readSearch reads an address; what it does not know is left out.
export function readSearch(search: Record<string, unknown>): InboxSearch {
  const kinds = (Array.isArray(search.kind) ? search.kind : [search.kind]).filter((k): k is string => typeof k === "string" && k in kindNames);
  return {
    item: text(search.item, 128),
    all: flag(search.all),
    snoozed: flag(search.snoozed),
    kind: kinds.length > 0 ? kinds : undefined,
    agent: text(search.agent, 128),
    task: text(search.task, 128),
    danger: flag(search.danger),
    mine: flag(search.mine),
    q: text(search.q, 200),
  };
}

// isFiltered says that a part of the inbox shows.
export const isFiltered = (s: InboxSearch) => Boolean(s.snoozed || s.kind || s.agent || s.task || s.danger || s.mine || s.q);

// requestOf is what the hub is asked for.
export const requestOf = (s: InboxSearch) => ({
  states: s.all ? every : [],
  snoozed: s.snoozed ? InboxSnoozed.ONLY : s.all ? InboxSnoozed.ANY : InboxSnoozed.UNSPECIFIED,
  kinds: s.kind?.map((k) => kindNames[k] ?? InboxKind.UNSPECIFIED) ?? [],
  agentId: s.agent ?? "",
  taskId: s.task ?? "",
  dangerous: s.danger ?? false,
  mine: s.mine ?? false,
  text: s.q ?? "",
  order: InboxOrder.TIME_LEFT,
  pageSize: 50,
  pageToken: "",
});
