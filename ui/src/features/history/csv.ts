import type { StatisticsRow } from "@/gen/deckhand/v1/history_pb";
import { spanMillis } from "./words";

// statisticsCsv writes rows as comma-separated values, with the columns of `deckhand task
// stats --csv`: durations in seconds, the cost in US dollars.
export function statisticsCsv(by: string, rows: readonly StatisticsRow[]): string {
  const phases = rows.find((r) => r.phases.length > 0)?.phases.map((p) => p.phase) ?? [];
  const header = [
    by, "tasks", "succeeded", "failed", "timed_out", "cancelled", "live", "first_time", "retries", "denied", "calls", "calls_failed", "mean_iterations",
    "duration_mean_s", "duration_p50_s", "duration_p90_s", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd",
    ...phases.map((p) => `${p}_s`),
  ];
  const seconds = (ms: number | undefined) => (ms === undefined ? "" : (ms / 1000).toFixed(3));
  const lines = rows.map((r) => [
    cell(r.key), r.tasks, r.succeeded, r.failed, r.timedOut, r.cancelled, r.live, r.firstTime, r.retries, r.denied, r.calls, r.callsFailed,
    r.meanIterations.toFixed(2), seconds(spanMillis(r.durationMean)), seconds(spanMillis(r.durationP50)), seconds(spanMillis(r.durationP90)),
    r.usage?.inputTokens ?? 0n, r.usage?.outputTokens ?? 0n, r.usage?.cacheReadTokens ?? 0n, r.usage?.cacheWriteTokens ?? 0n,
    (Number(r.usage?.costMicros ?? 0n) / 1e6).toFixed(6),
    ...phases.map((_, i) => (r.timed > 0n ? seconds(spanMillis(r.phases[i]?.total)) : "")),
  ]);
  return [header, ...lines].map((line) => line.join(",") + "\n").join("");
}

// cell quotes a text, and keeps a spreadsheet from taking it for a formula, as
// output.SpreadsheetText does on the command line.
export function cell(text: string): string {
  const plain = /^\s*[=+\-@]|^[\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
