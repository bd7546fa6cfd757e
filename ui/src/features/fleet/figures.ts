import { createClient } from "@connectrpc/connect";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { transport } from "@/api/transport";
import { NodeTelemetryService, type NodeUsage } from "@/gen/deckhand/v1/node_telemetry_pb";
import type { Task } from "@/gen/deckhand/v1/task_pb";
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

const noFigures: Figures = { cpu: [], memory: [], memoryLimit: 0 };
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

// Turn is an iteration of a task that has ended.
export type Turn = { seq: number; at: number; iteration: number; tokens: number; costMicros: number };

const noTurns: readonly Turn[] = [];
const minute = 60_000;
// How often cards are told, in milliseconds: people read no faster, and each
// frame that is drawn costs as much as many cards.
const often = 250;

// Pace holds the turns of the last minute of many tasks, oldest first, and tells
// only those who look at a task that had one.
export class Pace {
  private turns = new Map<string, readonly Turn[]>();
  private listeners = new Map<string, Set<() => void>>();
  private told = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  get = (taskId: string): readonly Turn[] => this.turns.get(taskId) ?? noTurns;

  subscribe(taskId: string, fn: () => void): () => void {
    let set = this.listeners.get(taskId);
    if (!set) this.listeners.set(taskId, (set = new Set()));
    set.add(fn);
    return () => {
      set.delete(fn);
      if (set.size === 0) this.listeners.delete(taskId);
    };
  }

  take(events: readonly LiveEvent[]) {
    for (const e of events) {
      if (ends.has(e.type)) this.turns.delete(e.taskId);
      if (e.type !== "iteration_complete") continue;
      const usage = e.payload.usage as Record<string, unknown> | undefined;
      const n = (name: string) => Number(usage?.[name] ?? 0);
      const turn = {
        seq: e.seq,
        at: e.time,
        iteration: Number(e.payload.iteration ?? 0),
        tokens: n("input_tokens") + n("output_tokens"),
        costMicros: n("cost_micros"),
      };
      const before = this.get(e.taskId);
      if (before.some((t) => t.seq === e.seq)) continue;
      this.turns.set(e.taskId, [...before.filter((t) => t.at > e.time - minute), turn]);
      this.told.add(e.taskId);
    }
    if (this.told.size > 0) this.timer ??= setTimeout(this.tell, often);
  }

  private tell = () => {
    this.timer = undefined;
    const { told } = this;
    this.told = new Set();
    for (const id of told) for (const fn of this.listeners.get(id) ?? []) fn();
  };
}

const ends = new Set(["execution_completed", "execution_failed", "execution_cancelled"]);

export function usePace(): Pace {
  const { store } = useLive();
  const pace = useMemo(() => new Pace(), []);
  useEffect(() => store.onBatch((events) => pace.take(events)), [store, pace]);
  return pace;
}

export function useTurns(pace: Pace, taskId: string): readonly Turn[] {
  return useSyncExternalStore(
    useMemo(() => (fn: () => void) => pace.subscribe(taskId, fn), [pace, taskId]),
    () => pace.get(taskId),
  );
}

// going says where a task is, by what the hub answered of it and the turns that
// ended since: how many iterations it has done, what it has cost, and the tokens
// that it used in the minute before now.
export function going(task: Pick<Task, "iteration" | "usage" | "eventSeq">, turns: readonly Turn[], now: number) {
  let iteration = task.iteration;
  let costMicros = Number(task.usage?.costMicros ?? 0n);
  let tokens = 0;
  for (const t of turns) {
    if (t.at > now - minute) tokens += t.tokens;
    if (t.seq <= Number(task.eventSeq)) continue;
    iteration = Math.max(iteration, t.iteration);
    costMicros += t.costMicros;
  }
  return { iteration, costMicros, tokens };
}
