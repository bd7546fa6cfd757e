export const states = ["enabled", "disabled"] as const;
export const levels = ["private", "team", "organisation"] as const;

// PatternSearch is the filter in the address.
export type PatternSearch = { q?: string; domain?: string; state?: (typeof states)[number]; seen?: (typeof levels)[number]; sure?: true };

const text = (v: unknown, max: number) => (typeof v === "string" && v !== "" ? v.slice(0, max) : undefined);

export function parsePatternSearch(search: Record<string, unknown>): PatternSearch {
  return {
    q: text(search.q, 300),
    domain: text(search.domain, 64),
    state: states.find((s) => s === search.state),
    seen: levels.find((s) => s === search.seen),
    sure: search.sure === true ? true : undefined,
  };
}

export const seenBy: Record<string, string> = { private: "Owner only", team: "Owner's teams", organisation: "Organisation" };
