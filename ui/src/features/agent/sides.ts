// sides are the tabs beside the thread of an agent's page.
export const sides = ["files", "changes", "plan", "usage", "persona"] as const;
export type Side = (typeof sides)[number];
