import { equals } from "@bufbuild/protobuf";
import { argumentsOf, json, type Act, type ActValue } from "@/components/marks";
import { CallDecisionSchema, InboxKind, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";

// Group is a row of the list: an item, with those that look alike.
export type Group = { first: InboxItem; items: InboxItem[] };

// grouped puts open calls that look alike behind the first of them; the order of the
// groups is that of the list.
export function grouped(items: readonly InboxItem[]): Group[] {
  const out: Group[] = [];
  const by = new Map<string, Group>();
  for (const item of items) {
    const key = item.state === InboxState.OPEN ? item.alikeKey : "";
    const known = key ? by.get(key) : undefined;
    if (known) {
      known.items.push(item);
      continue;
    }
    const group = { first: item, items: [item] };
    out.push(group);
    if (key) by.set(key, group);
  }
  return out;
}

// alone says why a call is decided by itself, and not within a group; undefined if it may
// be decided within one. first is the call that the group shows whole.
export function alone(item: InboxItem, first: InboxItem): string | undefined {
  if (item.kind !== InboxKind.APPROVAL || item.state !== InboxState.OPEN) return "It is not an open approval.";
  if (!item.decision || !first.decision) return "The hub says nothing of its risk.";
  if (item.dangerous || first.dangerous) return "Dangerous calls are decided one by one.";
  if (item.tool !== first.tool || item.agentId !== first.agentId) return "It is of another tool or agent.";
  if (item.longArguments.length > 0 || item.decision.longTexts.length > 0) return "It is too long to be compared.";
  // What it does to the workspace, or would push, is not among its arguments: the first is
  // shown with it.
  if (item.effectKey !== first.effectKey) return "It changes something else.";
  if (!item.shownDigest) return "It cannot be approved any more.";
  // What a difference of arguments does not show.
  const rest = (i: InboxItem) => ({ ...i.decision!, commands: [], rule: "", policyVersion: "", why: "" });
  if (!equals(CallDecisionSchema, rest(item), rest(first))) return "It would run elsewhere, or with other rights.";
  return undefined;
}

// Difference is one value that differs from that of the group's first call.
export type Difference = { at: string; text: Act | undefined };

// differences lists the values of a call that are not those of the group's first call, by
// JSON Pointer. A value that is missing has no text.
export function differences(item: InboxItem, first: InboxItem): Difference[] {
  const out: Difference[] = [];
  compare("", argumentsOf(item.arguments), argumentsOf(first.arguments), out);
  return out;
}

const isObject = (v: ActValue): v is Exclude<ActValue, Act | number | boolean | null | undefined | ActValue[]> =>
  typeof v === "object" && v !== null && !Array.isArray(v);

function compare(at: string, a: ActValue, b: ActValue, out: Difference[]) {
  if (isObject(a) && isObject(b)) {
    for (const key of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort())
      compare(`${at}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, a[key], b[key], out);
    return;
  }
  if (json(a) === json(b)) return;
  out.push({ at: at || "/", text: a === undefined ? undefined : typeof a === "string" ? a : (json(a) as Act) });
}
