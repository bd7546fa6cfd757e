export const bys = ["agent", "version", "task_type", "tool", "outcome", "day", "week", "month"] as const;
export type By = (typeof bys)[number];
export const periods = [7, 30, 90, 365] as const;

// StatisticsSearch is what the address says: what the rows are of, of how many
// days, and of which agent.
export type StatisticsSearch = { by?: By; days?: number; agent?: string };

export function parseStatisticsSearch(search: Record<string, unknown>): StatisticsSearch {
  return {
    by: bys.find((b) => b === search.by),
    days: periods.find((d) => d === search.days),
    agent: typeof search.agent === "string" && search.agent ? search.agent.slice(0, 128) : undefined,
  };
}

// since returns the start of the last days, in UTC. It is the same all day.
export function since(days: number, now: Date): { seconds: bigint } {
  return { seconds: BigInt(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - days + 1) / 1000) };
}
