import type { Event, Thinking, StepProgress } from "@/gen/deckhand/v1/event_pb";

// LiveEvent is one event as the console keeps it: plain, so that it can go from
// tab to tab, and small.
export type LiveEvent = {
  taskId: string;
  // From 1 with no gaps within its task.
  seq: number;
  type: string;
  // Milliseconds since 1970.
  time: number;
  actorKind: string;
  actorId: string;
  attempt: number;
  // By type: docs/events.md.
  payload: Record<string, unknown>;
};

// Piece is a part of a turn that is still being streamed. It is never stored.
export type Piece = {
  taskId: string;
  attempt: number;
  turn: number;
  // Where text begins in the turn's text, in bytes of UTF-8.
  offset: number;
  text: string;
};

// Item is what one response of the stream brought.
export type Item = { event: LiveEvent } | { piece: Piece } | { progress: Progress };

// Progress is how far a command is that runs. It is never stored.
export type Progress = {
  taskId: string;
  stepId: string;
  logBytes: number;
  // Processor time in seconds; undefined if it is not known.
  cpu?: number;
  lastLine: string;
};

export function liveEvent(e: Event): LiveEvent {
  return {
    taskId: e.taskId,
    seq: Number(e.seq),
    type: e.type,
    time: e.time ? Number(e.time.seconds) * 1000 + Math.floor(e.time.nanos / 1e6) : 0,
    actorKind: e.actorKind,
    actorId: e.actorId,
    attempt: e.attempt,
    payload: (e.payload ?? {}) as Record<string, unknown>,
  };
}

export function livePiece(t: Thinking): Piece {
  return { taskId: t.taskId, attempt: t.attempt, turn: t.turn, offset: Number(t.offset), text: t.text };
}

export function liveProgress(p: StepProgress): Progress {
  return {
    taskId: p.taskId,
    stepId: p.stepId,
    logBytes: Number(p.logBytes),
    cpu: p.cpuTime && Number(p.cpuTime.seconds) + p.cpuTime.nanos / 1e9,
    lastLine: p.lastLine,
  };
}

// summaryTypes are the types of events that every page may need of every task.
// Of the tasks that a person looks at, all types come.
export const summaryTypes = [
  "execution_started",
  "execution_resumed",
  "execution_completed",
  "execution_failed",
  "execution_cancelled",
  "execution_paused",
  "state_changed",
  "phase_changed",
  "progress_update",
  "iteration_complete",
  "tool_selected",
  "tool_completed",
  "approval_requested",
  "input_required",
  "outcome_unknown",
  "inbox_answered",
  "inbox_expired",
  "work_stopped",
  "pause_requested",
  "task.assigned",
  "task.escalated",
  "task.reordered",
  "agent.spawned",
  "agent.suspended",
  "review.requested",
  "review.completed",
  "budget_warning",
  "limit_reached",
];
