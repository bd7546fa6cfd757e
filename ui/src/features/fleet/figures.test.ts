import { describe, expect, it, vi } from "vitest";
import type { LiveEvent } from "@/live/event";
import { going, Pace } from "./figures";

const turn = (taskId: string, seq: number, time: number): LiveEvent => ({
  taskId, seq, type: "iteration_complete", time, actorKind: "worker", actorId: "w", attempt: 1,
  payload: { iteration: seq, usage: { input_tokens: 90, output_tokens: 10, cost_micros: 5 } },
});
const task = { iteration: 1, eventSeq: 1n, usage: { costMicros: 7n } } as Parameters<typeof going>[0];

describe("Pace", () => {
  it("adds the turns that ended since the task was asked for, each once", () => {
    const pace = new Pace();
    pace.take([turn("a", 1, 0), turn("a", 2, 10_000), turn("a", 2, 10_000), turn("b", 9, 10_000)]);
    pace.take([turn("a", 3, 20_000)]);
    expect(going(task, pace.get("a"), 21_000)).toEqual({ iteration: 3, costMicros: 17, tokens: 300 });
    // The first turn is more than a minute ago.
    expect(going(task, pace.get("a"), 61_000).tokens).toBe(200);
    expect(going(task, pace.get("c"), 0)).toEqual({ iteration: 1, costMicros: 7, tokens: 0 });
  });

  it("tells only who looks at a task that had a turn, several at a time", () => {
    vi.useFakeTimers();
    const pace = new Pace();
    const told: string[] = [];
    pace.subscribe("a", () => told.push("a"));
    const stop = pace.subscribe("b", () => told.push("b"));
    pace.take([turn("a", 1, 0)]);
    pace.take([turn("a", 2, 0), turn("c", 1, 0)]);
    expect(told).toEqual([]);
    vi.runAllTimers();
    expect(told).toEqual(["a"]);
    stop();
    pace.take([turn("b", 1, 0)]);
    vi.runAllTimers();
    expect(told).toEqual(["a"]);
    vi.useRealTimers();
  });
});
