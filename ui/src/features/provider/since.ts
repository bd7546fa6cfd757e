// sinces are from when usage is counted, as the address says it.
const sinces = ["today", "week", "month"] as const;
export type Since = (typeof sinces)[number];

export function parseSince(search: Record<string, unknown>): { since?: Since; connect?: string } {
  const { connect } = search;
  return {
    since: sinces.find((s) => s === search.since),
    // The provider to connect, as an error asks for it.
    connect: typeof connect === "string" && /^[a-z0-9._-]{1,60}$/.test(connect) ? connect : undefined,
  };
}

// sinceTime returns the start of a period, in UTC.
export function sinceTime(since: Since, now: Date): { seconds: bigint } {
  const [y, m, d] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  const from = since === "month" ? Date.UTC(y, m, 1) : since === "today" ? Date.UTC(y, m, d) : Date.UTC(y, m, d - 6);
  return { seconds: BigInt(from / 1000) };
}

// parsePrice reads US dollars for a million tokens; undefined for what is none.
export function parsePrice(text: string): number | undefined {
  const value = Number(text.trim());
  return text.trim() !== "" && Number.isFinite(value) && value >= 0 && value <= 100_000 ? value : undefined;
}
