import { Badge } from "@/components/Badge";
import { Chart } from "@/components/Chart";
import { Id } from "@/components/Id";
import { bytes, count } from "@/components/money";
import { Time } from "@/components/Time";
import type { NodeUsageEvent } from "@/gen/deckhand/v1/node_telemetry_pb";
import type { Samples } from "./samples";

export const cpus = (millis: number) => `${(millis / 1000).toFixed(millis < 10_000 ? 2 : 1)} CPU`;
const size = (n: number) => bytes(Math.round(n));
const limit = (n: bigint | undefined) => (n ? Number(n) : undefined);

// UsageCharts draws what a jail has used, or the machine for "".
export function UsageCharts({ samples, jail }: { samples: Samples; jail: string }) {
  const latest = samples.latest(jail);
  const series = samples.of(jail);
  return (
    <div className="grid gap-3 sm:grid-cols-2 xl:grid-cols-[repeat(auto-fit,minmax(14rem,1fr))]">
      <Chart label="CPU" times={samples.times} values={series.cpu} format={cpus} />
      <Chart label="Memory" times={samples.times} values={series.memory} format={size} limit={limit(latest?.memoryLimitBytes)} />
      <Chart label="Disk" times={samples.times} values={series.disk} format={size} limit={limit(latest?.diskLimitBytes)} />
      <Chart label="Processes" times={samples.times} values={series.pids} format={(n) => count(Math.round(n))} limit={limit(latest?.pidsLimit)} />
      {latest?.load !== undefined && (
        <Chart label="Load" times={samples.times} values={series.load} format={(n) => n.toFixed(2)} limit={latest.cpus} />
      )}
    </div>
  );
}

// UsageEvents lists what happened, newest first.
export function UsageEvents({ events }: { events: NodeUsageEvent[] }) {
  if (events.length === 0) return null;
  return (
    <ul aria-label="Events" className="space-y-1 pt-3 text-sm">
      {events.map((e, i) => (
        <li key={i} className="flex flex-wrap items-center gap-2">
          <Badge tone={e.kind === "pressure" ? "warn" : "bad"}>{e.kind.replaceAll("_", " ")}</Badge>
          {e.resource} {e.jailId ? <Id value={e.jailId} /> : "the machine"} <Time at={e.time} />
        </li>
      ))}
    </ul>
  );
}
