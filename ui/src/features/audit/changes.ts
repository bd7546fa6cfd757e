// Change is one changed field of an audit entry.
export type Change = { field: string; before: string; after: string };

const say = (v: unknown) => (v === undefined ? "" : typeof v === "string" ? v : JSON.stringify(v));

// changesOf returns the fields that differ between two states.
export function changesOf(before: Record<string, unknown> | undefined, after: Record<string, unknown> | undefined): Change[] {
  const fields = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].sort();
  return fields
    .map((field) => ({ field, before: say(before?.[field]), after: say(after?.[field]) }))
    .filter((c) => c.before !== c.after);
}
