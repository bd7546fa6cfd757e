import type { Duration } from "@bufbuild/protobuf/wkt";
import { dollars } from "@/components/money";
import { duration } from "@/components/Time";
import type { Estimate } from "@/gen/deckhand/v1/estimate_pb";
import type { Budget } from "@/gen/deckhand/v1/provider_pb";

// spanMillis converts a duration to milliseconds; undefined for none.
export function spanMillis(d: Duration | undefined): number | undefined {
  return d && Number(d.seconds) * 1000 + d.nanos / 1e6;
}

// likely describes an estimate on one line; undefined without history.
export function likely(e: Estimate): string | undefined {
  const [middle, high] = [spanMillis(e.durationP50), spanMillis(e.durationP90)];
  if (middle === undefined || high === undefined) return undefined;
  return `Usually ${duration(middle)} and ${dollars(e.costMicrosP50 ?? 0n)} (90 % under ${duration(high)} and ${dollars(e.costMicrosP90 ?? 0n)}; based on ${e.runs} runs)`;
}

// left describes what is neither spent nor reserved of a budget.
export function left(b: Budget): string {
  const micros = (b.limitMicros ?? 0n) - b.spentMicros - b.reservedMicros;
  const of = b.scope === "organisation" ? "the organisation" : b.scope === "user" ? b.objectId : "this task";
  return `${dollars(micros > 0n ? micros : 0n)} of ${of}${b.every === "day" ? " today" : b.every ? ` this ${b.every}` : ""}`;
}

// against says how a run's cost compares with those of the runs before it: how many times
// the median it is, where that is worth saying; "" otherwise.
export function against(costMicros: number, e: Pick<Estimate, "costMicrosP50" | "runs"> | undefined): string {
  const median = Number(e?.costMicrosP50 ?? 0n);
  if (!e || median <= 0 || costMicros < 1.5 * median) return "";
  return `${(costMicros / median).toFixed(1)} × the median of ${e.runs} runs`;
}
