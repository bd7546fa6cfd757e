import { millis } from "@/components/Time";
import { AgentStatus, type Agent, type AgentSummary } from "@/gen/deckhand/v1/agent_pb";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import type { Sort } from "./search";

// Need is what a person would have to do for an agent, or what it is at.
export type Need = {
  // The lowest first: a person is needed below 4.
  rank: number;
  // Since when, in milliseconds; undefined where that is not known.
  since?: number;
  // Of the item that waits: its id, and what it waits for.
  itemId?: string;
  words?: string;
  // Its provider is not connected.
  unconnected?: boolean;
};

const waits: Partial<Record<TaskState, string>> = {
  [TaskState.AWAITING_APPROVAL]: "Waits for an approval",
  [TaskState.NEEDS_INPUT]: "Waits for an answer",
  [TaskState.REVIEW_NEEDED]: "Waits for a review",
  [TaskState.ESCALATED]: "Escalated",
};

// needOf says what an agent needs. items are its open ones, the oldest first; connected are
// the providers with a key, unset while they are not known.
export function needOf(
  agent: Pick<Agent, "status" | "statusSince" | "provider">,
  task: Pick<Task, "state"> | undefined,
  items: readonly Pick<InboxItem, "id" | "askedAt">[],
  connected: ReadonlySet<string> | undefined,
): Need {
  const item = items[0];
  const unconnected = connected !== undefined && agent.provider !== "" && agent.provider !== "script" && !connected.has(agent.provider);
  if (item) {
    const words = (task && waits[task.state]) ?? "Waits for a person";
    return { rank: 0, since: millis(item.askedAt), itemId: item.id, words: items.length > 1 ? `${words} and ${items.length - 1} more` : words, unconnected };
  }
  if (agent.status === AgentStatus.ERROR_SUSPENDED) return { rank: 1, since: millis(agent.statusSince), unconnected };
  if (task?.state === TaskState.PAUSED) return { rank: 2, words: "Task paused", unconnected };
  if (unconnected) return { rank: 3, unconnected };
  if (agent.status === AgentStatus.ACTIVE) return { rank: 4 };
  if (task) return { rank: 5 };
  if (agent.status === AgentStatus.PAUSED) return { rank: 6 };
  return { rank: agent.status === AgentStatus.LISTENING ? 7 : agent.status === AgentStatus.DISABLED ? 9 : 8 };
}

export const today = (s: AgentSummary | undefined): bigint => s?.dayCostMicros.at(-1) ?? 0n;

// compareBy orders agents; those that are equal stand by name.
export function compareBy(sort: Sort, needs: ReadonlyMap<string, Need>, summaries: ReadonlyMap<string, AgentSummary>) {
  return (a: Agent, b: Agent): number => {
    const names = a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
    const [sa, sb] = [summaries.get(a.id), summaries.get(b.id)];
    switch (sort) {
      case "name":
        return names;
      case "cost":
        return Number(today(sb) - today(sa)) || names;
      case "last":
        return (millis(sb?.lastFinishedAt) ?? 0) - (millis(sa?.lastFinishedAt) ?? 0) || names;
      case "need": {
        const [x, y] = [needs.get(a.id), needs.get(b.id)];
        return (x?.rank ?? 9) - (y?.rank ?? 9) || ((x?.rank ?? 9) < 4 ? (x?.since ?? Infinity) - (y?.since ?? Infinity) || 0 : 0) || names;
      }
    }
  };
}
