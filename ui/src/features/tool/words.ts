import { ToolCategory, ToolConfirmation, ToolPlace, type Tool } from "@/gen/deckhand/v1/step_pb";
import type { ToolEntry } from "@/gen/deckhand/v1/tool_pb";

const categories: Record<number, string> = { [ToolCategory.SAFE]: "safe", [ToolCategory.MODERATE]: "moderate", [ToolCategory.DANGEROUS]: "dangerous" };
const places: Record<number, string> = { [ToolPlace.HUB]: "in the hub", [ToolPlace.NODE]: "on the node", [ToolPlace.WORKER]: "in the worker" };

// categoryOf says a tool's category, and what the agent's policies make of it.
export function categoryOf(e: ToolEntry): string {
  const own = categories[e.tool?.category ?? 0] ?? "";
  const agents = e.use && categories[e.use.category];
  return agents && agents !== own ? `${own} (policy: ${agents})` : own;
}

// placeOf says where a tool runs.
export const placeOf = (t: Tool): string => places[t.place] ?? "";

// asksOf says when a person has to approve a call.
export function asksOf(t: Tool): string {
  if (t.confirmation === ToolConfirmation.ALWAYS) return "always";
  return t.confirmation === ToolConfirmation.SUPERVISED ? "in supervised mode" : "never";
}

// undoOf says what can be undone.
export function undoOf(t: Tool): string {
  if (t.readOnly) return "changes nothing";
  return t.reversible ? "everything" : `not: ${t.irreversible}`;
}

// takes says how long a call usually takes.
export function takes(seconds: bigint | undefined): string {
  const n = Number(seconds ?? 0n);
  if (n === 0) return "a moment";
  return n < 60 ? `${n} s` : `${Math.round(n / 60)} min`;
}

// summary is the first sentence of a description.
export const summary = (description: string): string => /^[\s\S]*?\.(?=\s)/.exec(description)?.[0] ?? description;
