import { describe, expect, it } from "vitest";
import { TaskState } from "@/gen/deckhand/v1/task_pb";
import type { LiveEvent } from "@/live/event";
import { exitOf, quiet, shows, stateOf, wentWrong } from "./calls";
import { failureOf } from "./failure";
import { parseDetailSearch } from "./search";
import { Threads, type Call, type Note, type Said } from "./thread";
import { costsOf } from "./turncost";
import { rowsOf, thinned, waterfallOf } from "./waterfall";

let seq = 0;
const at = (time: number, type: string, payload: Record<string, unknown> = {}): LiveEvent => ({
  taskId: "t", seq: ++seq, type, time, actorKind: "worker", actorId: "w", attempt: 1, payload,
});
const e = (type: string, payload: Record<string, unknown> = {}) => at(++seq, type, payload);
const call = (step: string, number: number, tool: string, end: Record<string, unknown> | undefined) => [
  e("tool_selected", { step_id: step, number, turn: number, tool, arguments: { command: "go test" } }),
  e("tool_executing", { step_id: step, number, tool }),
  ...(end ? [e("tool_completed", { step_id: step, ...end })] : []),
];
const failed = (exit: number) => ({ state: "succeeded", outcome: { exit_code: exit }, log_bytes: 40 });

describe("why a task failed", () => {
  const thread = new Threads().of([...call("s1", 1, "shell_exec", failed(0)), ...call("s2", 2, "shell_exec", failed(2)), ...call("s3", 3, "file_read", { state: "succeeded" })]);
  const of = (state: TaskState, errorCode: string, errorMessage = "the words of the hub") => failureOf({ state, errorCode, errorMessage, reason: "" }, thread)!;

  it.each([
    [TaskState.FAILED, "AGENT_028", "Failed at step 2: shell_exec, exit 2", "retry"],
    [TaskState.FAILED, "AGENT_005", "Failed: iteration limit reached", "limit"],
    [TaskState.ESCALATED, "AGENT_014", "Escalated: the model could not be used", "provider"],
    [TaskState.FAILED, "AGENT_001", "Failed: its definition is not valid", "agent"],
    [TaskState.CANCELLED, "AGENT_027", "Cancelled at step 2: shell_exec, exit 2 (killed)", "resume"],
    [TaskState.TIMED_OUT, "AGENT_006", "Timed out at step 2: shell_exec, exit 2 (time limit reached)", "limit"],
  ])("names step, cause and remedy: %s %s", (state, code, title, remedy) => {
    const failure = of(state, code);
    expect(failure.title).toBe(title);
    expect(failure.cause).toBe("the words of the hub");
    expect(failure.step?.number).toBe(2);
    expect(failure.remedies[0]).toBe(remedy);
  });

  it("is not said of a task that succeeded or goes on", () => {
    for (const state of [TaskState.SUCCEEDED, TaskState.RUNNING, TaskState.PAUSED]) expect(of(state, "")).toBeUndefined();
  });
});

describe("a thread", () => {
  it("leaves no call of an ended task started, and says that a message was not delivered", () => {
    const thread = new Threads().of([
      ...call("s1", 1, "shell_exec", undefined),
      e("message_received", { message_id: "m1", text: "stop", by: "ada" }),
      e("state_changed", { from: "TASK_STATE_RUNNING", to: "TASK_STATE_CANCELLED", reason: "killed by ada" }),
    ]);
    expect((thread.entries[0] as Call).state).toBe("stopped");
    expect((thread.entries[1] as Said).lost).toBe(true);
    expect(thread.ended).toBe(true);
  });

  it("tells changes of the state that nobody looks into in one line", () => {
    const thread = new Threads().of([
      e("state_changed", { from: "pending", to: "queued" }),
      e("state_changed", { from: "queued", to: "starting", reason: "worker worker_1 makes its jail" }),
      e("state_changed", { from: "starting", to: "running" }),
      e("state_changed", { from: "running", to: "paused", reason: "by ada" }),
    ]);
    expect(thread.entries.map((x) => (x as Note).text)).toEqual(["pending → queued → starting → running", "running → paused: by ada"]);
  });

  it("says to whom a call gave work, and what became of it", () => {
    const thread = new Threads().of([
      ...call("s1", 1, "delegate", undefined),
      e("agent.subtask.created", { step_id: "s1", task_id: "task_2", agent: "triage", goal: "Look" }),
      e("agent.subtask.ended", { step_id: "s1", task_id: "task_2", state: "succeeded", cost_micros: 1200 }),
    ]);
    expect((thread.entries[0] as Call).subtasks).toEqual([{ id: "task_2", agent: "triage", goal: "Look", state: "succeeded", costMicros: 1200 }]);
  });

  it("is quiet about what went well and changed nothing", () => {
    const calls = new Threads().of([
      ...call("s1", 1, "file_read", { state: "succeeded" }),
      ...call("s2", 2, "shell_exec", failed(1)),
      ...call("s3", 3, "file_write", { state: "succeeded", workspace: { paths: ["a"] } }),
      ...call("s4", 4, "shell_exec", undefined),
    ]).entries as Call[];
    expect(calls.map(quiet)).toEqual([true, false, false, false]);
    expect(calls.map(wentWrong)).toEqual([false, true, false, false]);
    expect(calls.map((c) => stateOf(c))[1]).toEqual({ word: "exit 1", tone: "bad" });
    expect(exitOf(calls[1]!)).toBe(1);
    expect(calls.filter((c) => shows("changes", c)).map((c) => c.number)).toEqual([3]);
    expect(calls.filter((c) => shows("commands", c)).map((c) => c.number)).toEqual([2, 4]);
    expect(calls.filter((c) => shows("failures", c)).map((c) => c.number)).toEqual([2]);
  });
});

describe("the timeline", () => {
  const events = [
    at(1_000, "state_changed", { from: "pending", to: "queued" }),
    at(3_000, "state_changed", { from: "queued", to: "running" }),
    at(3_000, "phase_changed", { iteration: 1, phase: "think" }),
    at(8_000, "thinking", { turn: 1, model: "m" }),
    at(8_000, "tool_executing", { step_id: "s1", number: 1, tool: "delegate" }),
    at(8_500, "tool_executing", { step_id: "s2", number: 2, tool: "shell_exec" }),
    at(8_600, "state_changed", { from: "running", to: "waiting" }),
    at(9_000, "tool_completed", { step_id: "s2", state: "succeeded", outcome: { exit_code: 2 } }),
    at(48_600, "state_changed", { from: "waiting", to: "running" }),
    at(49_000, "tool_completed", { step_id: "s1", state: "succeeded" }),
    at(50_000, "state_changed", { from: "running", to: "succeeded" }),
  ];

  it("counts each moment once: its lanes are the whole time", () => {
    const w = waterfallOf(events, 0, 60_000);
    const ms = Object.fromEntries(w.lanes.map((l) => [l.name, l.ms]));
    expect(ms).toEqual({ Queue: 3_000, Model: 5_000, Waiting: 40_000, Tools: 600 + 400, "Agent loop": 1_000 });
    expect(Object.values(ms).reduce((a, b) => a + b, 0)).toBe(w.to - w.from);
    const tools = w.lanes.find((l) => l.name === "Tools")!;
    expect(rowsOf(tools.bars)).toHaveLength(2);
    expect(tools.bars.map((b) => [b.step, b.bad])).toEqual([[1, false], [2, true]]);
  });

  it("has a lane for each subtask, from its creation to its end, beside those that share the time", () => {
    const w = waterfallOf(
      [
        ...events.slice(0, 5),
        at(8_100, "agent.subtask.created", { task_id: "t1", agent: "taker", goal: "Take it" }),
        at(8_200, "agent.subtask.created", { task_id: "t2", agent: "other", goal: "Try it" }),
        at(40_000, "agent.subtask.ended", { task_id: "t1", agent: "taker", state: "TASK_STATE_FAILED" }),
        ...events.slice(5),
      ],
      0,
      60_000,
    );
    expect(w.subtasks).toEqual([
      { taskId: "t1", label: "taker: Take it", from: 8_100, to: 40_000, ended: true, bad: true },
      { taskId: "t2", label: "other: Try it", from: 8_200, to: 50_000, ended: false },
    ]);
    expect(w.lanes).toEqual(waterfallOf(events, 0, 60_000).lanes);
  });

  it("draws no more bars than can be told apart", () => {
    const bars = Array.from({ length: 10_000 }, (_, i) => ({ from: i, to: i + 1, label: "x" }));
    const few = thinned(bars, 25);
    expect(few.length).toBeLessThanOrEqual(400);
    expect(few.at(-1)!.to).toBe(10_000);
  });
});

describe("the cost", () => {
  it("sums up to the task's, by model and by turn", () => {
    const turn = (n: number, model: string, micros: number, cached = 0) => [
      e("thinking", { turn: n, provider: "p", model }),
      e("iteration_complete", { iteration: n, usage: { input_tokens: 10, cache_read_tokens: cached, output_tokens: 1, cost_micros: micros } }),
    ];
    for (const total of [100, 107]) {
      const { models, turns } = costsOf([...turn(1, "a", 30), ...turn(2, "b", 20, 5), ...turn(3, "c", 25), ...turn(4, "a", 25)], total);
      for (const list of [models, turns]) expect(list.reduce((sum, c) => sum + c.micros, 0)).toBe(total);
      expect(models[0]).toMatchObject({ name: "p a", micros: 55, input: 20 });
      expect(models[1]).toMatchObject({ name: "p b", cached: 5 });
    }
  });
});

it("an address names a tab, a step, a line and a file", () => {
  expect(parseDetailSearch({ tab: "steps", step: 12, line: 1_864_147, file: "a b", other: 1 })).toEqual({ tab: "steps", step: 12, line: 1_864_147, file: "a b" });
  expect(parseDetailSearch({ tab: "x", step: -1, line: "1", file: "" })).toEqual({});
});
