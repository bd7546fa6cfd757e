import { TaskState } from "@/gen/deckhand/v1/task_pb";

// TaskSearch is what the list's address says.
export type TaskSearch = {
  // Words of the title, the goal or the summary.
  q?: string;
  // Words of states, for example "running".
  state?: string[];
  // An agent's name.
  agent?: string;
  // The task that gave them.
  parent?: string;
  // Days, as in 2026-11-22, in the browser's own time zone; both are included.
  from?: string;
  to?: string;
};

// stateNames are the words by which addresses name states.
export const stateNames: Record<string, TaskState> = Object.fromEntries(
  Object.entries(TaskState)
    .filter(([, value]) => typeof value === "number" && value !== TaskState.UNSPECIFIED)
    .map(([name, value]) => [name.toLowerCase(), value as TaskState]),
);

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 200) : undefined);
const day = (v: unknown) =>
  typeof v === "string" && /^\d{4}-\d\d-\d\d$/.test(v) && !Number.isNaN(Date.parse(v)) ? v : undefined;

// parseTaskSearch reads an address; what it does not know is left out.
export function parseTaskSearch(search: Record<string, unknown>): TaskSearch {
  const state = (Array.isArray(search.state) ? search.state : [search.state]).filter(
    (s): s is string => typeof s === "string" && Object.hasOwn(stateNames, s),
  );
  return {
    // An address of digits is read as a number.
    q: text(typeof search.q === "number" ? String(search.q) : search.q),
    state: state.length > 0 ? [...new Set(state)] : undefined,
    agent: text(search.agent),
    parent: text(search.parent),
    from: day(search.from),
    to: day(search.to),
  };
}

// midnight is when a day begins, or the one that is so many days later.
export function midnight(day: string, later = 0): Date {
  const [y, m, d] = day.split("-").map(Number);
  return new Date(y!, m! - 1, d! + later);
}

// taskTabs are the parts of a task's page, the first one by default.
export const taskTabs = ["thread", "steps", "browser", "timeline", "plan", "changes", "files", "cost", "details"] as const;
export type TaskTab = (typeof taskTabs)[number];

// DetailSearch is what the address of a task's page says.
export type DetailSearch = {
  tab?: TaskTab;
  // The number of a step, and a line of its output.
  step?: number;
  line?: number;
  // What is looked for in the output of that step.
  find?: string;
  // A file that the task changed.
  file?: string;
};

const from1 = (v: unknown) => (typeof v === "number" && Number.isSafeInteger(v) && v > 0 ? v : undefined);

// parseDetailSearch reads an address; what it does not know is left out.
export function parseDetailSearch(search: Record<string, unknown>): DetailSearch {
  const file = typeof search.file === "number" ? String(search.file) : search.file;
  return {
    tab: taskTabs.find((t) => t === search.tab),
    step: from1(search.step),
    line: from1(search.line),
    find: text(typeof search.find === "number" ? String(search.find) : search.find),
    file: typeof file === "string" && file !== "" ? file.slice(0, 4096) : undefined,
  };
}
