import { TaskState } from "@/gen/deckhand/v1/task_pb";

// TaskSearch is what the list's address says.
export type TaskSearch = {
  // Words of states, for example "running".
  state?: string[];
  // An agent's name.
  agent?: string;
  // The task that gave them.
  parent?: string;
};

// stateNames are the words by which addresses name states.
export const stateNames: Record<string, TaskState> = Object.fromEntries(
  Object.entries(TaskState)
    .filter(([, value]) => typeof value === "number" && value !== TaskState.UNSPECIFIED)
    .map(([name, value]) => [name.toLowerCase(), value as TaskState]),
);

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 200) : undefined);

// parseTaskSearch reads an address; what it does not know is left out.
export function parseTaskSearch(search: Record<string, unknown>): TaskSearch {
  const state = (Array.isArray(search.state) ? search.state : [search.state]).filter(
    (s): s is string => typeof s === "string" && s in stateNames,
  );
  return {
    state: state.length > 0 ? [...new Set(state)] : undefined,
    agent: text(search.agent),
    parent: text(search.parent),
  };
}

// taskTabs are the parts of a task's page, the first one by default.
export const taskTabs = ["thread", "steps", "timeline", "plan", "changes", "details"] as const;
export type TaskTab = (typeof taskTabs)[number];
