import { MemorySourceKind, MemoryType, type Memory, type MemorySource } from "@/gen/deckhand/v1/memory_pb";
import { ScopeKind } from "@/gen/deckhand/v1/scope_pb";

// MemorySearch is the filter in the address.
export type MemorySearch = { q?: string; of?: string; type?: string; by?: string; deleted?: boolean };

export const scopes: [name: string, kind: ScopeKind, label: string][] = [
  ["user", ScopeKind.USER, "Mine"],
  ["organisation", ScopeKind.ORGANISATION, "Organisation"],
];

export const types: [name: string, type: MemoryType, label: string][] = [
  ["instruction", MemoryType.INSTRUCTION, "Instruction"],
  ["preference", MemoryType.PREFERENCE, "Preference"],
  ["fact", MemoryType.FACT, "Fact"],
  ["workflow", MemoryType.WORKFLOW, "Workflow"],
  ["selector", MemoryType.SELECTOR, "Selector"],
  ["statistic", MemoryType.STATISTIC, "Statistic"],
];

export const sources: [name: string, label: string][] = [
  ["person", "People"],
  ["agent", "Agents"],
  ["unconfirmed", "Agents, not confirmed"],
  ["import", "Imports"],
];

const oneOf = (value: unknown, of: readonly (readonly [string, ...unknown[]])[]) => (of.some(([name]) => name === value) ? (value as string) : undefined);

export const parseMemorySearch = (search: Record<string, unknown>): MemorySearch => ({
  q: typeof search.q === "string" && search.q !== "" ? search.q.slice(0, 300) : undefined,
  of: oneOf(search.of, scopes),
  type: oneOf(search.type, types),
  by: oneOf(search.by, sources),
  deleted: search.deleted === true || undefined,
});

// requestOf returns the request of a filter.
export const requestOf = (s: MemorySearch) => {
  const scope = scopes.find(([name]) => name === s.of);
  const type = types.find(([name]) => name === s.type);
  return {
    query: s.q ?? "",
    scope: scope && { kind: scope[1], id: "" },
    types: type ? [type[1]] : [],
    source: { person: MemorySourceKind.PERSON, agent: MemorySourceKind.AGENT, import: MemorySourceKind.IMPORT }[s.by ?? ""] ?? MemorySourceKind.UNSPECIFIED,
    unconfirmed: s.by === "unconfirmed",
    deleted: s.deleted ?? false,
    pageSize: 100,
    pageToken: "",
  };
};

export const typeLabel = (type: MemoryType) => types.find(([, t]) => t === type)?.[2] ?? "Unknown (update the console)";

// ownerOf says whose an entry is.
export const ownerOf = (m: Memory): string => {
  switch (m.scope?.kind) {
    case ScopeKind.ORGANISATION:
      return "Organisation";
    case ScopeKind.TEAM:
      return `Team ${m.scopeName}`;
    case ScopeKind.USER:
      return m.scopeName;
    case ScopeKind.AGENT:
      return `Agent ${m.scopeName}`;
    case ScopeKind.WORKSPACE:
      return `Workspace of ${m.scopeName || m.scope.id}`;
    default:
      return "Unknown (update the console)";
  }
};

// sourceOf says who wrote a version.
export const sourceOf = (s: MemorySource | undefined): string => {
  switch (s?.kind) {
    case MemorySourceKind.AGENT:
      return `Agent ${s.agentName}, for ${s.user}`;
    case MemorySourceKind.IMPORT:
      return `Import by ${s.user}`;
    default:
      return s?.user ?? "";
  }
};

// textOf returns a value as a person edits it: a text as it is, the rest as JSON.
export const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

// valueOf reads what a person wrote: JSON where it is some that is no plain word, and otherwise the text.
export const valueOf = (text: string): unknown => {
  if (!/^\s*[[{"]/.test(text) && !/^\s*(-?\d+(\.\d+)?|true|false)\s*$/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
};
