import type { Moment } from "@/gen/deckhand/v1/event_pb";
import { millis } from "@/components/Time";

// RowKind is what a row of the thread is about.
export type RowKind = "turn" | "step" | "message" | "question" | "problem" | "note";

// ThreadRow is one line of the thread: a turn, a step with all that became of it, a
// message. Nothing of it changes while a person moves through time: what it looks like
// at a position follows from changes.
export type ThreadRow = {
  key: string;
  kind: RowKind;
  // The index of the moment that it began with.
  from: number;
  // Of each change of it: the moment's index, and the state that it went to.
  changes: { at: number; state: string }[];
  // The event to read for the whole text.
  seq: number;
  step: number;
  stepId: string;
  tool: string;
  turn: number;
  title: string;
};

// Totals is what was known of a run at a moment.
export type Totals = {
  // Finished iterations, the newest turn, and the steps that had ended.
  iterations: number;
  turn: number;
  steps: number;
  tokens: number;
  costMicros: number;
  // The task's state as events name it; empty before the first.
  state: string;
  // The step that ended last, whose workspace is shown; empty before the first.
  stepId: string;
  stepNumber: number;
  // The step that was handed to where it runs last.
  ranId: string;
  ranTool: string;
  // The step that ended last and has a picture of the browser; empty before the first.
  seenId: string;
  seenNumber: number;
  // The number of the event with the plan; 0 for none.
  planSeq: number;
};

const nothing: Totals = {
  iterations: 0, turn: 0, steps: 0, tokens: 0, costMicros: 0, state: "", stepId: "", stepNumber: 0, ranId: "", ranTool: "", seenId: "", seenNumber: 0, planSeq: 0,
};

// Keyframes are this many moments apart, so a jump to anywhere applies fewer than that.
export const keyframeEvery = 128;

const questions = new Set(["approval_requested", "input_required", "outcome_unknown", "review_requested"]);
// The tools whose calls have a picture of the browser.
const pictured = new Set(["browser_click", "browser_type", "browser_select", "browser_press", "browser_upload", "browser_screenshot"]);
const problems = new Set(["execution_failed", "limit_reached", "task.escalated", "agent.retry", "tool_rejected", "egress_refused", "model_outage"]);
const words: Record<string, string> = {
  "plan_updated": "Plan updated",
  "execution_started": "Run started",
  "execution_resumed": "Run resumed",
  "execution_completed": "Run completed",
  "execution_cancelled": "Run cancelled",
  "execution_paused": "Run paused",
  "execution_failed": "Run failed",
  "context_summarized": "Old turns were replaced by a summary",
  "model_failover": "Another model continues",
  "model_outage": "No model answers",
  "task.submitted": "Task created",
  "task.escalated": "Escalated",
  "agent.retry": "Retry",
  "agent.subtask.created": "Subtask created",
  "agent.subtask.ended": "Subtask ended",
  "agent.handed_over": "Handed over",
  "workspace_undone": "Changes undone",
  "workspace_restored": "Workspace restored",
  "job_started": "Background job started",
  "job_ended": "Background job ended",
  "browser_taken": "A person took over the browser",
  "browser_acted": "A person used the browser",
  "browser_given": "The browser is the agent's again",
  "limit_warning": "80 % of a limit used",
  "limit_reached": "Limit reached",
  "egress_refused": "Blocked by egress rules",
  "tool_rejected": "Call rejected",
  "inbox_answered": "Answered",
  "inbox_expired": "Expired without an answer",
  "message_received": "Message",
  "review_requested": "Waits for a review",
};

// History is the index of a run, made once: any position in it is then found in a
// bounded number of operations.
export class History {
  readonly rows: ThreadRow[] = [];
  readonly times: Float64Array;
  // Whether the run used a browser.
  readonly browsed: boolean;
  // How many moments were applied by at() in all: what tests measure instead of time.
  applied = 0;
  // How many rows had begun by each moment.
  private readonly begun: Int32Array;
  // The row that a moment belongs to.
  private readonly rowAt: Int32Array;
  private readonly keyframes: Totals[] = [];
  private last: { at: number; totals: Totals } = { at: -1, totals: nothing };

  // With partial, the moments are the end of a run: sums over all of it are not known.
  constructor(
    readonly moments: readonly Moment[],
    readonly partial = false,
  ) {
    this.times = new Float64Array(moments.length);
    this.begun = new Int32Array(moments.length);
    this.rowAt = new Int32Array(moments.length);
    const rowOf = new Map<string, number>();
    let totals = nothing;
    moments.forEach((m, i) => {
      // A clock that went back between two hubs must not hide a moment.
      this.times[i] = Math.max(millis(m.time) ?? 0, this.times[i - 1] ?? 0);
      totals = next(totals, m);
      if (i % keyframeEvery === 0) this.keyframes.push(totals);
      this.rowAt[i] = this.take(m, i, rowOf);
      this.begun[i] = this.rows.length;
    });
    this.browsed = moments.some((m) => m.tool.startsWith("browser_"));
  }

  get length() {
    return this.moments.length;
  }

  private take(m: Moment, i: number, rowOf: Map<string, number>): number {
    const state = stateAfter(m);
    const known = m.stepId ? rowOf.get(m.stepId) : undefined;
    if (known !== undefined) {
      const row = this.rows[known]!;
      if (state) row.changes.push({ at: i, state });
      return known;
    }
    const kind = kindOf(m);
    // What ends a turn belongs to the turn.
    if (m.type === "iteration_complete" || (m.type === "state_changed" && ["running", "starting"].includes(m.state))) return Math.max(0, this.rows.length - 1);
    const row: ThreadRow = {
      key: m.stepId && kind === "step" ? m.stepId : `e${m.seq}`,
      kind,
      from: i,
      changes: state ? [{ at: i, state }] : [],
      seq: Number(m.seq),
      step: m.step,
      stepId: kind === "step" ? m.stepId : "",
      tool: m.tool,
      turn: m.turn,
      title: titleOf(m, kind),
    };
    const at = this.rows.push(row) - 1;
    if (row.stepId) rowOf.set(row.stepId, at);
    return at;
  }

  // at returns what was known after a moment. It goes on from the nearest keyframe, or
  // from the position of the call before where that is nearer.
  at(i: number): Totals {
    const to = Math.min(Math.max(i, -1), this.length - 1);
    if (to < 0) return nothing;
    const frame = Math.floor(to / keyframeEvery);
    let from = frame * keyframeEvery;
    let totals = this.keyframes[frame]!;
    if (this.last.at >= from && this.last.at <= to) ({ at: from, totals } = this.last);
    for (let n = from + 1; n <= to; n++) {
      totals = next(totals, this.moments[n]!);
      this.applied++;
    }
    this.last = { at: to, totals };
    return totals;
  }

  // iterationAt returns the iteration whose checkpoint a moment is at: the one that ends
  // next where no other call of its turn comes before that, else the last that had ended.
  iterationAt(i: number): number {
    for (let n = i + 1; n < this.length; n++) {
      const m = this.moments[n]!;
      if (m.type === "iteration_complete") return Math.max(m.turn, this.at(i).iterations);
      if (m.type === "thinking" || m.type.startsWith("tool_")) break;
    }
    return this.at(i).iterations;
  }

  // rowsAt returns how many rows had begun by a moment.
  rowsAt(i: number): number {
    return this.begun[Math.min(i, this.length - 1)] ?? 0;
  }

  // rowOf returns the index of the row that a moment belongs to.
  rowOf(i: number): number {
    return this.rowAt[Math.min(Math.max(i, 0), this.length - 1)] ?? 0;
  }

  // before returns the last moment that was not after a time, in milliseconds; 0 at least.
  before(time: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle]! <= time) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  // find reads a position from an address: a step's id, an event's number, or a time. It
  // returns undefined for one that is not in the run.
  find(at: string): number | undefined {
    if (at.startsWith("step_")) {
      const row = this.rows.find((r) => r.stepId === at || r.stepId.startsWith(at));
      return row && (row.changes.at(-1)?.at ?? row.from);
    }
    if (/^\d+$/.test(at)) {
      const found = this.moments.findLastIndex((m) => m.seq <= BigInt(at));
      return found < 0 ? undefined : found;
    }
    const time = Date.parse(at);
    return Number.isNaN(time) || this.length === 0 ? undefined : this.before(time);
  }

  // name is how an address names a position: by the step that ended there, where one did.
  name(i: number): string {
    const m = this.moments[i];
    if (!m) return "";
    const row = this.rows[this.rowOf(i)];
    return m.stepId && row?.stepId === m.stepId && row.changes.at(-1)?.at === i ? m.stepId : String(m.seq);
  }

  // step returns the position of the next end of a step, or of the one before; turn that
  // of the next turn, or of the one before. The ends are the ends of the run.
  step(i: number, by: 1 | -1): number {
    return this.along(i, by, (m) => m.type === "tool_completed" || m.type === "tool_denied");
  }

  turn(i: number, by: 1 | -1): number {
    return this.along(i, by, (m) => m.type === "thinking");
  }

  private along(i: number, by: 1 | -1, wanted: (m: Moment) => boolean): number {
    for (let n = i + by; n >= 0 && n < this.length; n += by) if (wanted(this.moments[n]!)) return n;
    return by > 0 ? this.length - 1 : 0;
  }
}

// stateOf returns the state of a row after a moment; empty where it has none.
export function stateOf(row: ThreadRow, i: number): string {
  return row.changes.findLast((c) => c.at <= i)?.state ?? "";
}

function stateAfter(m: Moment): string {
  switch (m.type) {
    case "tool_selected":
      return "granted";
    case "tool_denied":
      return "denied";
    case "tool_deferred":
      return "deferred";
    case "tool_executing":
      return "started";
    case "tool_completed":
      return m.state;
    case "approval_requested":
    case "input_required":
      return "waiting";
    case "outcome_unknown":
      return "unknown";
    default:
      return "";
  }
}

function kindOf(m: Moment): RowKind {
  if (m.type === "thinking") return "turn";
  if (m.type === "message_received") return "message";
  if (problems.has(m.type)) return "problem";
  if (m.stepId && (m.type.startsWith("tool_") || questions.has(m.type))) return "step";
  if (questions.has(m.type)) return "question";
  return "note";
}

function titleOf(m: Moment, kind: RowKind): string {
  if (kind === "step" || kind === "turn" || kind === "message") return m.title;
  if (m.type === "state_changed") return `Task ${m.state.replaceAll("_", " ")}${m.title ? `: ${m.title}` : ""}`;
  const word = words[m.type] ?? m.type.replaceAll("_", " ");
  return m.title ? `${word}: ${m.title}` : word;
}

// next returns the totals after one more moment.
function next(t: Totals, m: Moment): Totals {
  switch (m.type) {
    case "thinking":
      return { ...t, turn: m.turn };
    case "iteration_complete": {
      const u = m.usage;
      return {
        ...t,
        iterations: Math.max(t.iterations, m.turn),
        tokens: t.tokens + Number((u?.inputTokens ?? 0n) + (u?.outputTokens ?? 0n) + (u?.cacheReadTokens ?? 0n) + (u?.cacheWriteTokens ?? 0n)),
        costMicros: t.costMicros + Number(u?.costMicros ?? 0n),
      };
    }
    case "tool_executing":
      return { ...t, ranId: m.stepId, ranTool: m.tool };
    case "tool_completed": {
      const ended = { ...t, steps: t.steps + 1, stepId: m.stepId, stepNumber: m.step };
      return pictured.has(m.tool) && m.state === "succeeded" ? { ...ended, seenId: m.stepId, seenNumber: m.step } : ended;
    }
    case "state_changed":
      return { ...t, state: m.state };
    case "plan_updated":
      return { ...t, planSeq: Number(m.seq) };
    default:
      return t;
  }
}

// MarkKind is what a mark on the slider stands for, in the order in which one hides
// another at the same place.
export const markKinds = ["step", "change", "message", "question", "problem"] as const;
export type MarkKind = (typeof markKinds)[number];

// marksOf puts the marks of a run into so many equal parts of the slider: at most one
// mark each, the most important one.
export function marksOf(history: History, parts: number): { at: number; kind: MarkKind }[] {
  const found = new Map<number, { at: number; kind: MarkKind }>();
  const last = Math.max(1, history.length - 1);
  history.moments.forEach((m, i) => {
    const kind = markOf(m);
    if (!kind) return;
    const part = Math.round((i / last) * parts);
    const before = found.get(part);
    if (!before || markKinds.indexOf(kind) > markKinds.indexOf(before.kind)) found.set(part, { at: i, kind });
  });
  return [...found.values()];
}

function markOf(m: Moment): MarkKind | undefined {
  if (m.type === "tool_completed") return m.state === "failed" || m.state === "unknown" ? "problem" : m.files > 0 ? "change" : "step";
  if (problems.has(m.type) || m.type === "tool_denied") return "problem";
  if (questions.has(m.type)) return "question";
  return m.type === "message_received" ? "message" : undefined;
}
