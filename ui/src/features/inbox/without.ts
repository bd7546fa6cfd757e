// Without is what a person leaves out of the work that they accept: files, by their paths,
// and requests, by the ids of their steps.
export type Without = { paths: string[]; stepIds: string[] };

export const nothing: Without = { paths: [], stepIds: [] };

// toggled adds one to a list, or takes it out.
export const toggled = (all: string[], one: string) => (all.includes(one) ? all.filter((x) => x !== one) : [...all, one]);
