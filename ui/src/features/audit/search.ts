// AuditSearch is the filter in the list's address: one object, one user, one kind.
export type AuditSearch = { object?: string; by?: string; action?: string };

const text = (v: unknown, most: number) => (typeof v === "string" && v !== "" ? v.slice(0, most) : undefined);

// parseAuditSearch reads an address and ignores unknown parameters.
export const parseAuditSearch = (search: Record<string, unknown>): AuditSearch => ({
  object: text(search.object, 128),
  by: text(search.by, 128),
  action: text(search.action, 64),
});
