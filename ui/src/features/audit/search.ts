// ranges are the times that the list can be narrowed to, in hours.
export const ranges = { "1h": 1, "24h": 24, "7d": 7 * 24, "30d": 30 * 24 } as const;
export type Range = keyof typeof ranges;

// severities are how grave an entry is, the least grave first.
export const severities = ["low", "medium", "high", "critical"] as const;
export type Severity = (typeof severities)[number];

// AuditSearch is the filter in the list's address: one object, one user, one kind,
// a text, how grave, and how far back.
export type AuditSearch = { object?: string; by?: string; action?: string; text?: string; severity?: Severity; range?: Range };

const text = (v: unknown, most: number) => (typeof v === "string" && v !== "" ? v.slice(0, most) : undefined);

// parseAuditSearch reads an address and ignores unknown parameters.
export const parseAuditSearch = (search: Record<string, unknown>): AuditSearch => ({
  object: text(search.object, 128),
  by: text(search.by, 128),
  action: text(search.action, 64),
  text: text(search.text, 100),
  severity: severities.find((s) => s === search.severity),
  range: (Object.keys(ranges) as Range[]).find((r) => r === search.range),
});
