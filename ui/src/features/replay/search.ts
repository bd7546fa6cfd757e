// ReplaySearch is what the address says: the position, as a step's id, an event's number
// or a time, and what is shown beside the thread.
export const replayTabs = ["files", "terminal", "browser", "plan", "details"] as const;
export type ReplayTab = (typeof replayTabs)[number];
export type ReplaySearch = { at?: string; show?: ReplayTab };

export function parseReplaySearch(search: Record<string, unknown>): ReplaySearch {
  // An address of digits is read as a number.
  const at = typeof search.at === "number" ? String(search.at) : search.at;
  return {
    at: typeof at === "string" && at !== "" ? at.slice(0, 128) : undefined,
    show: replayTabs.find((t) => t === search.show),
  };
}

// newestOf is the request for the end of a run, which is shown until all of it is there.
export const newestOf = (taskId: string) => ({ taskId, pageSize: 200, newest: true });

// momentsOf is the request for a run's moments: a page is that of most runs.
export const momentsOf = (taskId: string) => ({ taskId, pageSize: 5000, pageToken: "" });
