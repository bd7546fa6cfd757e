import type { Call, Entry } from "./thread";

// exitOf returns the exit status of a call's command; undefined if it has none.
export function exitOf(call: Pick<Call, "outcome">): number | undefined {
  const code = call.outcome?.exit_code;
  return typeof code === "number" ? code : undefined;
}

// wentWrong reports whether a call failed, was refused, or ran a command that ended
// with another exit status than 0.
export function wentWrong(call: Call): boolean {
  return ["failed", "denied", "unknown", "stopped"].includes(call.state) || (exitOf(call) ?? 0) !== 0;
}

// asks reports whether a call waits for a person, or asks one.
export const asks = (call: Call) => call.itemId !== undefined || call.state === "waiting" || call.tool === "request_input";

// quiet reports whether a line says enough of a call: it went well and changed
// nothing.
export function quiet(call: Call): boolean {
  if (wentWrong(call) || asks(call) || call.state === "started" || call.refused.length > 0) return false;
  return call.files.length === 0 && call.subtasks.length === 0;
}

export const filters = ["all", "changes", "commands", "questions", "failures"] as const;
export type Filter = (typeof filters)[number];

// shows reports whether a filter leaves an entry.
export function shows(filter: Filter, entry: Entry): boolean {
  if (filter === "all") return true;
  if (entry.kind === "said") return filter === "questions";
  if (entry.kind === "note") return filter === "failures" && entry.tone === "bad";
  if (entry.kind !== "call") return false;
  switch (filter) {
    case "changes":
      return entry.files.length > 0;
    case "commands":
      return entry.tool === "shell_exec" || entry.tool.startsWith("terminal_");
    case "questions":
      return asks(entry);
    case "failures":
      return wentWrong(entry);
  }
}

// stateOf is a call's state in words, and whether it is good, bad or neither.
export function stateOf(call: Call): { word: string; tone: "good" | "bad" | "warn" | "accent" | "info" | "neutral" } {
  const exit = exitOf(call);
  if (exit !== undefined && exit !== 0) return { word: `exit ${exit}`, tone: "bad" };
  const tones: Record<string, "good" | "bad" | "warn" | "accent" | "info"> = {
    succeeded: "good", failed: "bad", denied: "bad", waiting: "warn", unknown: "warn", stopped: "bad", started: "accent", granted: "info",
  };
  return { word: call.state === "unknown" ? "outcome unknown" : call.state, tone: tones[call.state] ?? "neutral" };
}
