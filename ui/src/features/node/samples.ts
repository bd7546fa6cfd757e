import type { NodeUsage, NodeUsageEvent, WatchNodeTelemetryResponse } from "@/gen/deckhand/v1/node_telemetry_pb";

// Figure is what can be drawn of a machine or a jail.
export type Figure = "cpu" | "memory" | "disk" | "pids" | "load";

export type Series = Record<Figure, (number | null)[]>;

// How many samples are kept, and of how many seconds. When there are more, the older half
// is thinned out: what was is shown less finely than what is.
const kept = 600;
const longest = 3_600;

const figure = (v: bigint | undefined) => (v === undefined ? null : Number(v));

// Samples holds what a machine and its jails used in the last hour. A jail
// that was not there in a second has null for it. Its arrays are new with every
// sample, so that what draws them sees that they changed.
export class Samples {
  // Seconds since 1970.
  times: number[] = [];
  private readonly series = new Map<string, Series>();
  // The last sample: the machine and the jails that run.
  host: NodeUsage | undefined;
  jails: NodeUsage[] = [];
  // What happened, newest first, at most 50.
  events: NodeUsageEvent[] = [];

  add(sample: WatchNodeTelemetryResponse) {
    const at = sample.time ? Number(sample.time.seconds) + sample.time.nanos / 1e9 : Date.now() / 1000;
    const last = this.times.at(-1);
    this.events = [...sample.events.toReversed(), ...this.events].slice(0, 50);
    this.host = sample.host;
    this.jails = sample.jails;
    if (last !== undefined && at <= last) return; // a clock that was set back draws nothing twice
    const before = this.times.length;
    const times = [...this.times, at];
    const stays = (i: number) => times[i]! > at - longest && (times.length <= kept || i >= kept / 2 || i % 2 === 0);
    const thinned = <T>(all: T[]) => (times.length <= kept && stays(0) ? all : all.filter((_, i) => stays(i)));
    this.times = thinned(times);
    const now = new Map<string, NodeUsage>(sample.jails.map((jail) => [jail.jailId, jail]));
    if (sample.host) now.set("", sample.host);
    for (const id of new Set([...this.series.keys(), ...now.keys()])) {
      const empty = () => Array.from({ length: before }, () => null);
      const old: Series = this.series.get(id) ?? { cpu: empty(), memory: empty(), disk: empty(), pids: empty(), load: empty() };
      const usage = now.get(id);
      const next: Series = {
        cpu: thinned([...old.cpu, figure(usage?.cpuMillis)]),
        memory: thinned([...old.memory, figure(usage?.memoryBytes)]),
        disk: thinned([...old.disk, figure(usage?.diskBytes)]),
        pids: thinned([...old.pids, figure(usage?.pids)]),
        load: thinned([...old.load, usage?.load ?? null]),
      };
      // A jail that is long gone is forgotten.
      if (next.cpu.every((v) => v === null) && next.memory.every((v) => v === null)) this.series.delete(id);
      else this.series.set(id, next);
    }
  }

  // of returns the series of a jail, or of the machine for "".
  of(jailId: string): Series {
    return this.series.get(jailId) ?? { cpu: [], memory: [], disk: [], pids: [], load: [] };
  }

  // latest returns the last figures of a jail, or of the machine for "".
  latest(jailId: string): NodeUsage | undefined {
    return jailId === "" ? this.host : this.jails.find((jail) => jail.jailId === jailId);
  }
}
