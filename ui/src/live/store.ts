import type { Item, LiveEvent, Piece, Progress } from "./event";

// TaskView is what is known of one task's history. It is a new object each time
// that something changed; events is the same array, which only grows.
export type TaskView = {
  // In order and without gaps.
  events: readonly LiveEvent[];
  // Grows with each change.
  version: number;
  // "loading" until the newest events are there.
  state: "loading" | "ready" | "failed";
  error?: unknown;
  // The first event is there.
  whole: boolean;
  loadingOlder: boolean;
  // What the model is saying now; none between turns.
  speaking?: Speaking;
  // How far its running commands are, by the ids of their steps.
  progress?: Readonly<Record<string, Progress>>;
};

export type Speaking = { attempt: number; turn: number; text: string };

export type Page = { events: LiveEvent[]; newest: number };

export type StoreConfig = {
  // EventService.ListEvents.
  list: (taskId: string, range: { before?: number; after?: number; size: number }) => Promise<Page>;
  // Runs a function with the next frame.
  nextFrame?: (fn: () => void) => void;
  // Runs a function a little later.
  soon?: (fn: () => void) => void;
  // Is told when the set of open tasks has changed.
  onOpenTasks?: (ids: string[]) => void;
};

const pageSize = 300;
const catchUpSize = 1000;
const retryAfter = 1_000;

type Log = {
  view: TaskView;
  events: LiveEvent[];
  // Events beyond a gap, which is being filled.
  beyond: Map<number, LiveEvent>;
  catching: boolean;
  again: boolean;
  // Events of the turn being streamed, and how many bytes of it are known.
  speaking?: Speaking & { bytes: number };
  users: number;
  listeners: Set<() => void>;
};

// EventStore holds the histories of the tasks that are on screen. Events come
// from the stream in any doubling, and what is missing between two is asked for:
// a view has neither gaps nor repeats. Its listeners are told once a frame at most.
export class EventStore {
  private readonly cfg: Required<StoreConfig>;
  private readonly logs = new Map<string, Log>();
  private readonly batchListeners = new Set<(events: LiveEvent[]) => void>();
  private dirty = new Set<Log>();
  private batch: LiveEvent[] = [];
  private scheduled = false;
  private batched = false;

  constructor(cfg: StoreConfig) {
    this.cfg = { nextFrame, soon, onOpenTasks: () => {}, ...cfg };
  }

  // open keeps a task's history at hand until the answered function is called.
  open(taskId: string): () => void {
    let log = this.logs.get(taskId);
    if (!log) {
      log = {
        view: { events: [], version: 0, state: "loading", whole: false, loadingOlder: false },
        events: [],
        beyond: new Map(),
        catching: false,
        again: false,
        users: 0,
        listeners: new Set(),
      };
      log.view = { ...log.view, events: log.events };
      this.logs.set(taskId, log);
    }
    if (log.users++ === 0) {
      void this.catchUp(taskId, log);
      this.cfg.onOpenTasks(this.openTasks());
    }
    let closed = false;
    return () => {
      if (closed) return;
      closed = true;
      if (--log.users === 0) {
        this.cfg.onOpenTasks(this.openTasks());
        // A page that is opened again at once, as by going back, finds it.
        setTimeout(() => {
          if (log.users === 0 && this.logs.get(taskId) === log) this.logs.delete(taskId);
        }, 30_000);
      }
    };
  }

  openTasks(): string[] {
    return [...this.logs].filter(([, log]) => log.users > 0).map(([id]) => id);
  }

  view(taskId: string): TaskView | undefined {
    return this.logs.get(taskId)?.view;
  }

  subscribe(taskId: string, fn: () => void): () => void {
    const log = this.logs.get(taskId);
    log?.listeners.add(fn);
    return () => log?.listeners.delete(fn);
  }

  // onBatch is told of the events of all tasks, ten times a second at most: a
  // frame for each would have the browser draw all the time.
  onBatch(fn: (events: LiveEvent[]) => void): () => void {
    this.batchListeners.add(fn);
    return () => this.batchListeners.delete(fn);
  }

  // apply takes what the stream brought.
  apply(items: Item[]) {
    for (const item of items) {
      if ("event" in item) {
        this.batch.push(item.event);
        const log = this.logs.get(item.event.taskId);
        if (log) this.take(item.event.taskId, log, [item.event]);
      } else if ("piece" in item) {
        this.hear(item.piece);
      } else {
        const { progress } = item;
        const log = this.logs.get(progress.taskId);
        if (log) this.change(log, { progress: { ...log.view.progress, [progress.stepId]: progress } });
      }
    }
    if (this.batch.length > 0) this.gather();
  }

  // covered says that from now on the stream brings every event of these tasks:
  // what came before that is asked for.
  covered(taskIds: string[]) {
    for (const id of taskIds) {
      const log = this.logs.get(id);
      if (log && log.users > 0) void this.catchUp(id, log);
    }
  }

  // older fetches the events before the first one known.
  async older(taskId: string): Promise<void> {
    const log = this.logs.get(taskId);
    const first = log?.events[0];
    if (!log || !first || first.seq === 1 || log.view.loadingOlder) return;
    this.change(log, { loadingOlder: true });
    try {
      const page = await this.cfg.list(taskId, { before: first.seq, size: catchUpSize });
      // What comes before must end where the known begins.
      if (page.events.at(-1)?.seq === first.seq - 1) log.events.unshift(...page.events);
      this.change(log, { loadingOlder: false, whole: page.events.length === 0 || page.events[0]?.seq === 1 });
    } catch (error) {
      this.change(log, { loadingOlder: false, error });
    }
  }

  private async catchUp(taskId: string, log: Log): Promise<void> {
    if (log.catching) {
      log.again = true;
      return;
    }
    log.catching = true;
    let failures = 0;
    do {
      log.again = false;
      try {
        const last = log.events.at(-1)?.seq;
        const page = await this.cfg.list(taskId, last ? { after: last, size: catchUpSize } : { size: pageSize });
        this.take(taskId, log, page.events, last === undefined);
        if ((log.events.at(-1)?.seq ?? 0) < page.newest) log.again = page.events.length > 0;
        const whole = log.view.whole || log.events.length === 0 || log.events[0]?.seq === 1;
        if (log.view.state !== "ready" || log.view.whole !== whole) {
          this.change(log, { state: "ready", error: undefined, whole });
        }
        failures = 0;
      } catch (error) {
        if (log.view.state === "loading") this.change(log, { state: "failed", error });
        if (log.users === 0 || failures >= 8) break;
        log.again = true;
        const wait = Math.min(retryAfter * 2 ** failures++, 10_000);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    } while (log.again && log.users > 0);
    log.catching = false;
  }

  // take adds events that follow what is known, and keeps those beyond a gap
  // until it is filled. The first page may begin anywhere.
  private take(taskId: string, log: Log, events: LiveEvent[], anywhere = false) {
    let changed = false;
    const push = (e: LiveEvent) => {
      log.events.push(e);
      changed = true;
      if (log.speaking && e.type === "thinking" && ended(log.speaking, e)) log.speaking = undefined;
      if (e.type === "state_changed" && e.payload.to !== "running") {
        log.speaking = undefined;
        if (log.view.progress) log.view = { ...log.view, progress: undefined };
      }
      const { [String(e.payload.step_id)]: over, ...others } = log.view.progress ?? {};
      if (over && e.type === "tool_completed") log.view = { ...log.view, progress: others };
    };
    for (const e of events) {
      const last = log.events.at(-1)?.seq;
      if (last === undefined ? anywhere || e.seq === 1 : e.seq === last + 1) push(e);
      else if (last === undefined || e.seq > last) log.beyond.set(e.seq, e);
    }
    for (let last = log.events.at(-1)?.seq; last !== undefined && log.beyond.size > 0; ) {
      const next = log.beyond.get(last + 1);
      if (!next) break;
      push(next);
      log.beyond.delete(++last);
    }
    const last = log.events.at(-1)?.seq ?? 0;
    for (const seq of log.beyond.keys()) if (seq <= last) log.beyond.delete(seq);
    if (log.beyond.size > 0 && log.users > 0) void this.catchUp(taskId, log);
    if (changed) this.change(log, {});
  }

  private hear(piece: Piece) {
    const log = this.logs.get(piece.taskId);
    if (!log) return;
    const s = log.speaking;
    const bytes = new TextEncoder().encode(piece.text).length;
    const same = s && s.attempt === piece.attempt && s.turn === piece.turn;
    if (same && piece.offset > 0) {
      if (piece.offset + bytes <= s.bytes) return;
      // A piece may have been missed: the finished turn has it.
      s.text += (piece.offset > s.bytes ? " […] " : "") + piece.text;
      s.bytes = piece.offset + bytes;
    } else {
      log.speaking = {
        attempt: piece.attempt,
        turn: piece.turn,
        text: (piece.offset > 0 ? "[…] " : "") + piece.text,
        bytes: piece.offset + bytes,
      };
    }
    this.change(log, {});
  }

  private change(log: Log, part: Partial<TaskView>) {
    const s = log.speaking;
    log.view = {
      ...log.view,
      ...part,
      events: log.events,
      version: log.view.version + 1,
      speaking: s && { attempt: s.attempt, turn: s.turn, text: s.text },
    };
    this.dirty.add(log);
    this.schedule();
  }

  private schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    this.cfg.nextFrame(() => {
      this.scheduled = false;
      const { dirty } = this;
      this.dirty = new Set();
      for (const log of dirty) for (const fn of log.listeners) fn();
    });
  }

  private gather() {
    if (this.batched) return;
    this.batched = true;
    this.cfg.soon(() => {
      this.batched = false;
      const { batch } = this;
      this.batch = [];
      for (const fn of this.batchListeners) fn(batch);
    });
  }
}

function ended(s: Speaking, e: LiveEvent): boolean {
  return e.attempt >= s.attempt && Number(e.payload.turn ?? 0) >= s.turn;
}

function soon(fn: () => void) {
  setTimeout(fn, 100);
}

// A page that nobody sees has no frames.
function nextFrame(fn: () => void) {
  if (document.hidden) setTimeout(fn, 250);
  else requestAnimationFrame(fn);
}
