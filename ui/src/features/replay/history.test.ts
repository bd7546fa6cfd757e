import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MomentSchema, type Moment } from "@/gen/deckhand/v1/event_pb";
import { History, keyframeEvery, marksOf, stateOf } from "./history";
import { advance, longestWait } from "./play";

const begin = 1_760_000_000_000;

// run is so many turns of one step each, 10 s apart; every tenth step fails and every
// seventh changes a file.
export function run(turns: number): Moment[] {
  const out: Moment[] = [];
  let seq = 0;
  type More = Exclude<MessageInitShape<typeof MomentSchema>, Moment>;
  const add = (type: string, at: number, more: More = {}) =>
    out.push(create(MomentSchema, { seq: BigInt((seq += 3)), type, time: { seconds: BigInt(Math.floor(at / 1000)), nanos: (at % 1000) * 1e6 }, ...more }));
  add("state_changed", begin, { state: "queued" });
  for (let n = 1; n <= turns; n++) {
    const at = begin + n * 10_000;
    const step = { step: n, stepId: `step_${n}`, tool: "shell_exec" };
    add("thinking", at, { turn: n, title: `I do ${n}` });
    add("tool_selected", at + 1, { ...step, turn: n, title: `echo ${n}` });
    add("tool_executing", at + 2, step);
    add("tool_completed", at + 500, { ...step, state: n % 10 === 0 ? "failed" : "succeeded", files: n % 7 === 0 ? 1 : 0 });
    add("iteration_complete", at + 600, { turn: n, usage: { inputTokens: 90n, outputTokens: 10n, costMicros: 5n } });
  }
  add("state_changed", begin + turns * 10_000 + 700, { state: "succeeded" });
  return out;
}

describe("a run of 2,000 steps", () => {
  const turns = 2_000;
  const history = new History(run(turns));

  it("is found at any position by few operations, and the same however one came there", () => {
    const random = (n: number) => (n * 7_919) % history.length;
    for (let n = 0; n < 300; n++) {
      const before = history.applied;
      const at = random(n);
      const totals = history.at(at);
      expect(history.applied - before).toBeLessThan(keyframeEvery);
      const ended = Math.floor(at / 5); // five moments a turn, after the first
      expect([totals.iterations, totals.costMicros, totals.tokens]).toEqual([ended, ended * 5, ended * 100].map((v) => Math.min(v, turns * 100)));
    }
    // Dragging along the whole of it applies each moment about once.
    history.at(0);
    const before = history.applied;
    for (let at = 0; at < history.length; at++) history.at(at);
    expect(history.applied - before).toBeLessThanOrEqual(history.length);
  });

  it("shows what had begun by then, as it was then", () => {
    const at = history.find("step_1000")!;
    expect(history.moments[at]!.type).toBe("tool_completed");
    // A row for the first state, and a turn and a step for each turn.
    expect(history.rowsAt(at)).toBe(1 + 2 * 1000);
    const row = history.rows[history.rowOf(at)]!;
    expect([row.step, row.title]).toEqual([1000, "echo 1000"]);
    expect([at - 3, at - 2, at - 1, at].map((i) => stateOf(row, i))).toEqual(["", "granted", "started", "failed"]);
    expect(history.at(at).stepNumber).toBe(1000);
    // Its turn ends with it: the checkpoint is that of the turn, not of the one before.
    expect([history.iterationAt(at), history.iterationAt(at - 1), history.at(at).iterations]).toEqual([1000, 999, 999]);
    expect(history.at(at - 1)).toMatchObject({ stepNumber: 999, ranId: "step_1000" });
  });

  it("is addressed by steps, numbers and times, and names each position so that it is found again", () => {
    expect(history.find("step_none")).toBeUndefined();
    expect(history.find("soon")).toBeUndefined();
    const at = history.find("step_7")!;
    expect(history.name(at)).toBe("step_7");
    expect(history.find(new Date(begin + 70_500).toISOString())).toBe(at);
    expect(history.find(new Date(begin - 1).toISOString())).toBe(0);
    for (const i of [0, 1, 2, 3, 5_000, history.length - 1]) expect(history.find(history.name(i))).toBe(i);
  });

  it("goes by steps and by turns, and stops at its ends", () => {
    const at = history.find("step_7")!;
    expect(history.step(at, 1)).toBe(history.find("step_8"));
    expect(history.step(at, -1)).toBe(history.find("step_6"));
    expect(history.moments[history.turn(at, 1)]).toMatchObject({ type: "thinking", turn: 8 });
    expect(history.step(history.length - 1, 1)).toBe(history.length - 1);
    expect(history.turn(0, -1)).toBe(0);
  });

  it("has a bounded number of marks, of which failures go first", () => {
    const marks = marksOf(history, 100);
    expect(marks.length).toBeLessThanOrEqual(101);
    expect(marks.filter((m) => m.kind === "problem").length).toBeGreaterThan(90);
    for (const m of marks) if (m.kind === "problem") expect(history.moments[m.at]!.state).toBe("failed");
  });
});

describe("playing", () => {
  const times = [0, 100, 60_000, 60_100];

  it("takes as long as it took, by the speed", () => {
    expect(advance(times, { at: 0, clock: 0 }, 50, 1, false)).toEqual({ at: 0, clock: 50, ended: false });
    expect(advance(times, { at: 0, clock: 50 }, 50, 1, false)).toEqual({ at: 1, clock: 100, ended: false });
    expect(advance(times, { at: 1, clock: 100 }, 100, 100, false)).toEqual({ at: 1, clock: 10_100, ended: false });
  });

  it("skips waiting, and ends at the end", () => {
    expect(advance(times, { at: 1, clock: 100 }, 500, 1, true)).toEqual({ at: 1, clock: 60_000 - longestWait + 500, ended: false });
    expect(advance(times, { at: 1, clock: 100 }, 30, 100, true)).toMatchObject({ at: 3, ended: true });
    expect(advance([], { at: 0, clock: 0 }, 30, 1, true)).toMatchObject({ at: 0, ended: true });
  });
});

it("knows which picture of the browser was the newest at a moment", () => {
  const done = (n: number, tool: string, state = "succeeded") =>
    create(MomentSchema, { seq: BigInt(n), type: "tool_completed", step: n, stepId: `step_${n}`, tool, state });
  const history = new History([done(1, "browser_navigate"), done(2, "browser_click"), done(3, "browser_type", "failed"), done(4, "shell_exec"), done(5, "browser_screenshot")]);
  expect([0, 1, 2, 3, 4].map((i) => history.at(i).seenId)).toEqual(["", "step_2", "step_2", "step_2", "step_5"]);
});
