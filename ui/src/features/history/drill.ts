import type { TaskSearch } from "@/features/task/search";
import type { StatisticsRow } from "@/gen/deckhand/v1/history_pb";
import type { By } from "./search";
import { dayOf } from "./Trend";

const dayIn = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10);

// tasksOf is the list of the tasks that a row adds up, or of those that ended in a state;
// undefined where the list of tasks has no such filter.
export function tasksOf(r: Pick<StatisticsRow, "key">, by: By, agent: string, from: { seconds: bigint }, state?: string): TaskSearch | undefined {
  const search: TaskSearch = { agent: agent || undefined, from: dayIn(Number(from.seconds)), state: state ? [state] : undefined };
  switch (by) {
    case "agent":
      return r.key ? { ...search, agent: r.key } : undefined;
    case "outcome":
      return !state || state === r.key ? { ...search, state: [r.key] } : undefined;
    case "day":
      return { ...search, from: r.key, to: r.key };
    case "week":
      return { ...search, from: dayIn(dayOf(r.key)), to: dayIn(dayOf(r.key) + 6 * 86_400) };
    case "month": {
      const [year, month] = r.key.split("-").map(Number);
      return { ...search, from: `${r.key}-01`, to: `${r.key}-${String(new Date(Date.UTC(year!, month!, 0)).getUTCDate()).padStart(2, "0")}` };
    }
    default:
      return undefined;
  }
}
