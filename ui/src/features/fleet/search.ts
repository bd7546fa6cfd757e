export const groupings = ["node", "status", "model"] as const;
export type Grouping = (typeof groupings)[number];
export type FleetSearch = { q?: string; status?: string; group?: Grouping };
