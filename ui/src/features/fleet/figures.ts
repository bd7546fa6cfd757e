import { createClient } from "@connectrpc/connect";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { transport } from "@/api/transport";
import { NodeTelemetryService, type NodeUsage } from "@/gen/deckhand/v1/node_telemetry_pb";
import { useLive } from "@/live/context";
import type { LiveEvent } from "@/live/event";

const telemetry = createClient(NodeTelemetryService, transport);

// Figures are an agent's or a node's last minutes, oldest first. The arrays are
// new when something came.
export type Figures = {
  // Thousandths of a CPU, and bytes.
  cpu: readonly number[];
  memory: readonly number[];
  memoryLimit: number;
};

export const noFigures: Figures = { cpu: [], memory: [], memoryLimit: 0 };
const kept = 60;

// Samples holds the figures of many agents and nodes, and tells only those whose
// figures changed.
export class Samples {
  private all = new Map<string, Figures>();
  private listeners = new Map<string, Set<() => void>>();

  get = (key: string): Figures => this.all.get(key) ?? noFigures;

  subscribe(key: string, fn: () => void): () => void {
    let set = this.listeners.get(key);
    if (!set) this.listeners.set(key, (set = new Set()));
    set.add(fn);
    return () => set.delete(fn);
  }

  add(key: string, usage: Pick<NodeUsage, "cpuMillis" | "memoryBytes" | "memoryLimitBytes">) {
    const before = this.get(key);
    this.all.set(key, {
      cpu: [...before.cpu, Number(usage.cpuMillis ?? 0n)].slice(-kept),
      memory: [...before.memory, Number(usage.memoryBytes ?? 0n)].slice(-kept),
      memoryLimit: Number(usage.memoryLimitBytes ?? 0n),
    });
    for (const fn of this.listeners.get(key) ?? []) fn();
  }
}

const every = 2_000;

// useSamples asks the connected nodes for their figures every two seconds while
// the page is seen. It asks rather than listens: a browser has six connections
// to a hub without TLS, and one stream takes one of them for good.
export function useSamples(nodeIds: string[]): Samples {
  const samples = useMemo(() => new Samples(), []);
  const ids = nodeIds.join(" ");
  useEffect(() => {
    const abort = new AbortController();
    const ask = async (nodeId: string) => {
      try {
        for await (const s of telemetry.watchNodeTelemetry({ nodeId }, { signal: abort.signal })) {
          if (s.host) samples.add(`node ${nodeId}`, s.host);
          const agents = new Map<string, NodeUsage[]>();
          for (const jail of s.jails) {
            if (!jail.agentName) continue;
            agents.set(jail.agentName, [...(agents.get(jail.agentName) ?? []), jail]);
          }
          const sum = (jails: NodeUsage[], of: "cpuMillis" | "memoryBytes" | "memoryLimitBytes") =>
            jails.reduce((n, j) => n + (j[of] ?? 0n), 0n);
          for (const [name, jails] of agents) {
            samples.add(`agent ${name}`, {
              cpuMillis: sum(jails, "cpuMillis"),
              memoryBytes: sum(jails, "memoryBytes"),
              memoryLimitBytes: sum(jails, "memoryLimitBytes"),
            });
          }
        }
      } catch {
        // A node that is away has no figures; the list of nodes says so.
      }
    };
    const all = async () => {
      if (!document.hidden) for (const id of ids.split(" ").filter(Boolean)) await ask(id);
    };
    let timer: ReturnType<typeof setTimeout>;
    const loop = async () => {
      await all();
      if (!abort.signal.aborted) timer = setTimeout(() => void loop(), every);
    };
    void loop();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [samples, ids]);
  return samples;
}

export function useFigures(samples: Samples, key: string): Figures {
  return useSyncExternalStore(
    useMemo(() => (fn: () => void) => samples.subscribe(key, fn), [samples, key]),
    () => samples.get(key),
  );
}

// Burn is how many tokens tasks used in the last minute.
export class Burn {
  private used = new Map<string, { at: number; tokens: number }[]>();

  take(events: readonly LiveEvent[]) {
    for (const e of events) {
      if (e.type !== "iteration_complete") continue;
      const usage = e.payload.usage as Record<string, unknown> | undefined;
      const n = (name: string) => Number(usage?.[name] ?? 0);
      const tokens = n("input_tokens") + n("output_tokens");
      if (tokens > 0) this.used.set(e.taskId, [...(this.used.get(e.taskId) ?? []), { at: e.time, tokens }]);
    }
  }

  // rate answers the tokens of a task in the minute before now.
  rate(taskId: string, now: number): number {
    const recent = (this.used.get(taskId) ?? []).filter((u) => u.at > now - 60_000);
    if (recent.length === 0) this.used.delete(taskId);
    else this.used.set(taskId, recent);
    return recent.reduce((sum, u) => sum + u.tokens, 0);
  }
}

export function useBurn(): Burn {
  const { store } = useLive();
  const burn = useMemo(() => new Burn(), []);
  useEffect(() => store.onBatch((events) => burn.take(events)), [store, burn]);
  return burn;
}
