import type { LiveEvent } from "@/live/event";

// Lanes are what a task's time went to. At each moment it is one of them: waiting
// goes before work, and tools before the model.
export const laneNames = ["Queue", "Waiting for a person", "Waiting", "Paused", "Model", "Tools", "Retries", "Agent loop"] as const;
export type LaneName = (typeof laneNames)[number];

export type Bar = { from: number; to: number; label: string; step?: number; bad?: boolean };

export type Lane = {
  name: LaneName;
  // Of the task's time, in milliseconds: those of all lanes are all of it.
  ms: number;
  bars: Bar[];
};

// SubtaskBar is a task that this one gave to an agent, from its creation to its end.
export type SubtaskBar = Bar & { taskId: string; ended: boolean };

// Subtasks have lanes of their own beside those that share the time: they go on while the
// task waits, or works.
export type Waterfall = { from: number; to: number; lanes: Lane[]; subtasks: SubtaskBar[] };

const byState: Record<string, LaneName> = {
  pending: "Queue", queued: "Queue", starting: "Queue", awaiting_approval: "Waiting for a person", needs_input: "Waiting for a person",
  review_needed: "Waiting for a person", escalated: "Waiting for a person", waiting: "Waiting", paused: "Paused",
};

const word = (v: unknown) => String(v ?? "").replace("TASK_STATE_", "").toLowerCase();
const number = (v: unknown) => Number(v ?? 0) || 0;

type Interval = Bar & { lane: LaneName };

// waterfallOf puts all that a task did on one axis of time, in milliseconds, from its
// creation to its end, or to now.
export function waterfallOf(events: readonly LiveEvent[], created: number, end: number): Waterfall {
  const all: Interval[] = [];
  let state = { lane: "Queue" as LaneName | undefined, label: "pending", from: created };
  let thinking: { from: number; label: string } | undefined;
  let retry: { from: number; to: number; label: string } | undefined;
  const calls = new Map<string, Interval>();
  const subtasks = new Map<string, SubtaskBar>();
  const put = (lane: LaneName, from: number, to: number, more: Partial<Bar> & { label: string }) => {
    if (to > from) all.push({ lane, from, to, ...more });
  };
  for (const e of events) {
    const p = e.payload;
    switch (e.type) {
      case "state_changed":
        if (state.lane) put(state.lane, state.from, e.time, { label: state.label });
        state = { lane: byState[word(p.to)], label: word(p.to).replaceAll("_", " "), from: e.time };
        break;
      case "phase_changed":
        if (thinking) put("Model", thinking.from, e.time, thinking);
        thinking = p.phase === "think" ? { from: e.time, label: `Turn ${number(p.iteration)}` } : undefined;
        break;
      case "thinking":
        if (thinking) put("Model", thinking.from, e.time, { label: `Turn ${number(p.turn)}: ${String(p.model ?? "")}` });
        thinking = undefined;
        break;
      case "tool_executing":
        calls.set(String(p.step_id), { lane: "Tools", from: e.time, to: end, label: `Step ${number(p.number)}: ${String(p.tool ?? "")}`, step: number(p.number) });
        break;
      case "tool_completed": {
        const call = calls.get(String(p.step_id));
        if (call) call.to = e.time;
        if (call) call.bad = !String(p.state).toLowerCase().endsWith("succeeded") || number((p.outcome as Record<string, unknown> | undefined)?.exit_code) !== 0;
        break;
      }
      case "agent.subtask.created":
      case "agent.handed_over":
        subtasks.set(String(p.task_id), { taskId: String(p.task_id), from: e.time, to: end, ended: false, label: `${String(p.agent ?? "")}: ${String(p.goal ?? "")}` });
        break;
      case "agent.subtask.ended": {
        const task = subtasks.get(String(p.task_id));
        if (task) subtasks.set(task.taskId, { ...task, to: e.time, ended: true, bad: word(p.state) !== "succeeded" });
        break;
      }
      case "agent.retry":
        retry = { from: e.time, to: e.time + number(p.wait_ms), label: `Retry ${number(p.retry)}: ${String(p.message ?? "")}` };
        put("Retries", retry.from, Math.min(retry.to, end), retry);
        break;
    }
  }
  const last = events.findLast((e) => e.type === "state_changed");
  const over = last && ["succeeded", "failed", "timed_out", "cancelled"].includes(word(last.payload.to));
  const to = over ? last.time : end;
  if (state.lane && !over) put(state.lane, state.from, to, { label: state.label });
  if (thinking) put("Model", thinking.from, to, thinking);
  for (const call of calls.values()) put("Tools", call.from, Math.min(call.to, to), call);
  return { from: created, to, lanes: shares(all, created, to), subtasks: [...subtasks.values()].map((s) => ({ ...s, to: Math.min(s.to, to) })) };
}

// What a moment counts as, where several things go on.
const rank: LaneName[] = ["Retries", "Paused", "Waiting for a person", "Queue", "Waiting", "Tools", "Model"];

// shares divides the time among lanes, each moment once.
function shares(all: readonly Interval[], from: number, to: number): Lane[] {
  const edges: { at: number; lane: LaneName; by: 1 | -1 }[] = all.flatMap((i) => [
    { at: i.from, lane: i.lane, by: 1 as const },
    { at: Math.min(i.to, to), lane: i.lane, by: -1 as const },
  ]);
  edges.sort((a, b) => a.at - b.at);
  const open = new Map<LaneName, number>();
  const ms = new Map<LaneName, number>();
  let at = from;
  const pass = (until: number) => {
    const lane = rank.find((l) => (open.get(l) ?? 0) > 0) ?? "Agent loop";
    ms.set(lane, (ms.get(lane) ?? 0) + Math.max(0, until - at));
    at = Math.max(at, until);
  };
  for (const edge of edges) {
    pass(Math.min(edge.at, to));
    open.set(edge.lane, (open.get(edge.lane) ?? 0) + edge.by);
  }
  pass(to);
  return laneNames
    .map((name) => ({ name, ms: ms.get(name) ?? 0, bars: all.filter((i) => i.lane === name) }))
    .filter((lane) => lane.ms > 0 || lane.bars.length > 0);
}

// rowsOf puts bars into rows, so that those at one time are below each other.
export function rowsOf(bars: readonly Bar[]): Bar[][] {
  const rows: Bar[][] = [];
  for (const bar of [...bars].sort((a, b) => a.from - b.from)) {
    const row = rows.find((r) => r.at(-1)!.to <= bar.from);
    if (row) row.push(bar);
    else rows.push([bar]);
  }
  return rows;
}

// thinned joins bars that would be thinner than a width, so that a long run has not
// more elements than can be told apart.
export function thinned(bars: readonly Bar[], width: number): Bar[] {
  const out: Bar[] = [];
  for (const bar of bars) {
    const last = out.at(-1);
    if (last && bar.from - last.from < width && bar.to - last.from < 2 * width) {
      out[out.length - 1] = { ...last, to: Math.max(last.to, bar.to), label: `${last.label} …`, bad: last.bad || bar.bad };
    } else out.push(bar);
  }
  return out;
}
