import type { Task } from "@/gen/deckhand/v1/task_pb";
import { TaskState } from "@/gen/deckhand/v1/task_pb";
import { exitOf, wentWrong } from "./calls";
import type { Call, Thread } from "./thread";

export type Remedy = "retry" | "resume" | "agent" | "limit" | "provider" | "node" | "changes";

// Failure is why a task ended as it did.
export type Failure = {
  title: string;
  // In words, as the hub has them.
  cause: string;
  // The call that failed; undefined where no call is the cause.
  step: Call | undefined;
  remedies: Remedy[];
};

// Causes that lie outside of the agent's calls, by the code of the error.
const causes: Record<string, { words: string; remedies: Remedy[] }> = {
  AGENT_001: { words: "its definition is not valid", remedies: ["agent", "retry"] },
  AGENT_005: { words: "iteration limit reached", remedies: ["limit", "resume"] },
  AGENT_006: { words: "time limit reached", remedies: ["limit", "resume"] },
  AGENT_007: { words: "a question was not answered in time", remedies: ["resume", "retry"] },
  AGENT_009: { words: "its state could not be restored", remedies: ["resume", "retry"] },
  AGENT_010: { words: "budget or limit reached", remedies: ["limit", "resume"] },
  AGENT_011: { words: "rate limited", remedies: ["resume", "retry"] },
  AGENT_013: { words: "the conversation is too long for the model", remedies: ["retry", "agent"] },
  AGENT_014: { words: "the model could not be used", remedies: ["provider", "resume", "agent"] },
  AGENT_018: { words: "its node is not available", remedies: ["node", "retry"] },
  AGENT_019: { words: "its node is locked", remedies: ["node", "retry"] },
  AGENT_020: { words: "the provider refuses the key", remedies: ["provider", "resume"] },
  AGENT_022: { words: "an approval was not given in time", remedies: ["resume", "retry"] },
  AGENT_024: { words: "the model has no price", remedies: ["provider", "resume"] },
  AGENT_025: { words: "the provider is not connected", remedies: ["provider", "resume"] },
  AGENT_027: { words: "killed", remedies: ["resume", "changes"] },
  AGENT_031: { words: "its image is not available", remedies: ["agent", "retry"] },
  AGENT_032: { words: "the setup of its image failed", remedies: ["agent", "retry"] },
};

const verbs: Partial<Record<TaskState, string>> = {
  [TaskState.FAILED]: "Failed",
  [TaskState.TIMED_OUT]: "Timed out",
  [TaskState.CANCELLED]: "Cancelled",
  [TaskState.ESCALATED]: "Escalated",
};

// failureOf returns why a task did not succeed; undefined for one that did, or goes
// on.
export function failureOf(task: Pick<Task, "state" | "errorCode" | "errorMessage" | "reason">, thread: Pick<Thread, "entries">): Failure | undefined {
  const verb = verbs[task.state];
  if (!verb) return undefined;
  const cause = causes[task.errorCode];
  const step = thread.entries.findLast((e): e is Call => e.kind === "call" && wentWrong(e));
  const words = cause ? `: ${cause.words}` : "";
  const at = step && (!cause || task.errorCode === "AGENT_006" || task.errorCode === "AGENT_027") ? ` at step ${step.number}: ${nameOf(step)}` : "";
  return {
    title: at ? `${verb}${at}${cause ? ` (${cause.words})` : ""}` : `${verb}${words}`,
    cause: task.errorMessage || task.reason,
    step,
    remedies: cause?.remedies ?? ["retry", "resume", "agent"],
  };
}

// nameOf says which call it was, and how it ended.
export function nameOf(call: Call): string {
  const exit = exitOf(call);
  const reason = typeof call.outcome?.end_reason === "string" && call.outcome.end_reason !== "exited" ? call.outcome.end_reason.replaceAll("_", " ") : "";
  const how = exit !== undefined && exit !== 0 ? `exit ${exit}` : reason || call.errorCode || call.state;
  return `${call.tool}, ${how}`;
}
