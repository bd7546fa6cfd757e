import { describe, expect, it } from "vitest";
import type { LiveEvent } from "./event";
import { EventStore, type Page } from "./store";

const event = (seq: number, type = "progress_update", payload = {}): LiveEvent => ({
  taskId: "task_1",
  seq,
  type,
  time: 0,
  actorKind: "worker",
  actorId: "w",
  attempt: 1,
  payload,
});
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => event(from + i));

// hub holds a history, as ListEvents answers it, and frames that a test lets
// happen.
function hub(length: number) {
  let history = range(1, length);
  let calls = 0;
  let failing = 0;
  const frames: (() => void)[] = [];
  const soons: (() => void)[] = [];
  const store = new EventStore({
    list: async (_, { before, after, size }): Promise<Page> => {
      calls++;
      await Promise.resolve();
      if (failing-- > 0) throw new Error("not reached");
      const newest = history.length;
      if (after) return { events: history.filter((e) => e.seq > after).slice(0, size), newest };
      return { events: history.filter((e) => !before || e.seq < before).slice(-size), newest };
    },
    nextFrame: (fn) => frames.push(fn),
    soon: (fn) => soons.push(fn),
  });
  return {
    store,
    frames,
    soons,
    calls: () => calls,
    fail: (times: number) => (failing = times),
    grow: (to: number) => (history = range(1, to)),
    frame: () => {
      for (const fn of frames.splice(0)) fn();
    },
    seqs: () => store.view("task_1")?.events.map((e) => e.seq) ?? [],
  };
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

describe("EventStore", () => {
  it("shows the newest events, and goes on with live ones", async () => {
    const h = hub(1000);
    h.store.open("task_1");
    await settle();
    expect(h.seqs()).toEqual(range(701, 1000).map((e) => e.seq));
    expect(h.store.view("task_1")).toMatchObject({ state: "ready", whole: false });
    h.store.apply([{ event: event(1001) }]);
    expect(h.seqs().at(-1)).toBe(1001);
  });

  it("drops what comes twice", async () => {
    const h = hub(3);
    h.store.open("task_1");
    await settle();
    h.store.apply([{ event: event(3) }, { event: event(4) }, { event: event(4) }, { event: event(2) }]);
    expect(h.seqs()).toEqual([1, 2, 3, 4]);
  });

  it("asks for what is missing between two, and shows nothing beyond a gap before", async () => {
    const h = hub(3);
    h.store.open("task_1");
    await settle();
    h.grow(8);
    h.store.apply([{ event: event(7) }]);
    expect(h.seqs()).toEqual([1, 2, 3]);
    await settle();
    expect(h.seqs()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("keeps events that come before the first page", async () => {
    const h = hub(5);
    h.store.open("task_1");
    h.store.apply([{ event: event(6) }]);
    await settle();
    expect(h.seqs()).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it("asks again when the stream covers the task, and when asking failed", async () => {
    const h = hub(2);
    h.store.open("task_1");
    await settle();
    h.grow(4);
    h.store.covered(["task_1", "task_other"]);
    await settle();
    expect(h.seqs()).toEqual([1, 2, 3, 4]);
  });

  it("goes on after it could not ask", async () => {
    const h = hub(2);
    h.fail(1);
    h.store.open("task_1");
    await settle();
    expect(h.store.view("task_1")?.state).toBe("failed");
    await expect.poll(() => h.seqs(), { timeout: 5000 }).toEqual([1, 2]);
    expect(h.store.view("task_1")?.state).toBe("ready");
  });

  it("puts older pages before what is there", async () => {
    const h = hub(1000);
    h.store.open("task_1");
    await settle();
    await h.store.older("task_1");
    expect(h.seqs()).toEqual(range(1, 1000).map((e) => e.seq));
    expect(h.store.view("task_1")?.whole).toBe(true);
    const before = h.calls();
    await h.store.older("task_1");
    expect(h.calls()).toBe(before);
  });

  it("tells its listeners once a frame", async () => {
    const h = hub(1);
    h.store.open("task_1");
    await settle();
    h.frame();
    let told = 0;
    const batches: number[] = [];
    h.store.subscribe("task_1", () => told++);
    h.store.onBatch((events) => batches.push(events.length));
    const view = h.store.view("task_1");
    for (const e of range(2, 500)) h.store.apply([{ event: e }]);
    expect(told).toBe(0);
    expect(h.frames).toHaveLength(1);
    h.frame();
    expect(told).toBe(1);
    expect(h.soons).toHaveLength(1);
    h.soons[0]?.();
    expect(batches).toEqual([499]);
    expect(h.store.view("task_1")).not.toBe(view);
  });

  it("shows how far a command is until its step has its outcome", async () => {
    const h = hub(1);
    h.store.open("task_1");
    await settle();
    const progress = (stepId: string, logBytes: number) => h.store.apply([{ progress: { taskId: "task_1", stepId, logBytes, cpu: 1.5, lastLine: "ok" } }]);
    progress("step_1", 10);
    progress("step_2", 5);
    progress("step_1", 20);
    expect(h.store.view("task_1")?.progress).toMatchObject({ step_1: { logBytes: 20 }, step_2: { logBytes: 5 } });
    h.store.apply([{ event: event(2, "tool_completed", { step_id: "step_1" }) }]);
    expect(Object.keys(h.store.view("task_1")?.progress ?? {})).toEqual(["step_2"]);
    h.store.apply([{ event: event(3, "state_changed", { from: "running", to: "paused" }) }]);
    expect(h.store.view("task_1")?.progress).toBeUndefined();
  });

  it("shows what the model says until the turn is an event", async () => {
    const h = hub(1);
    h.store.open("task_1");
    await settle();
    const piece = (offset: number, text: string, turn = 1) => h.store.apply([{ piece: { taskId: "task_1", attempt: 1, turn, offset, text } }]);
    piece(0, "Größe ");
    piece(8, "zählt");
    expect(h.store.view("task_1")?.speaking?.text).toBe("Größe zählt");
    piece(8, "zählt");
    expect(h.store.view("task_1")?.speaking?.text).toBe("Größe zählt");
    piece(20, "weiter");
    expect(h.store.view("task_1")?.speaking?.text).toBe("Größe zählt […] weiter");
    piece(0, "Neu");
    expect(h.store.view("task_1")?.speaking?.text).toBe("Neu");
    h.store.apply([{ event: event(2, "thinking", { turn: 1 }) }]);
    expect(h.store.view("task_1")?.speaking).toBeUndefined();
  });
});
