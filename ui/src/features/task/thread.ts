import { partlyDone } from "@/gen/facts";
import { argumentsOf, type ActObject } from "@/components/marks";
import { bytes } from "@/components/money";
import type { LiveEvent } from "@/live/event";

// Call is one tool call, built from events.
export type Call = {
  kind: "call";
  key: string;
  stepId: string;
  number: number;
  turn: number;
  tool: string;
  args: ActObject;
  reason: string;
  at: number;
  // Of the effect ledger: "granted", "waiting", "denied", "started", "succeeded"…
  state: string;
  startedAt?: number;
  endedAt?: number;
  outcome?: Record<string, unknown>;
  errorCode?: string;
  logBytes: number;
  // The open inbox item; unset once it is answered.
  itemId?: string;
  // Files that the call changed.
  files: string[];
  refused: string[];
  // The tasks that it gave to other agents.
  subtasks: Subtask[];
};

export type Subtask = { id: string; agent: string; goal: string; state?: string; costMicros?: number };

export type Turn = {
  kind: "turn";
  key: string;
  turn: number;
  attempt: number;
  text: string;
  model: string;
  at: number;
  tokens: number;
};

// Said is a person's message to the agent.
export type Said = { kind: "said"; key: string; text: string; by: string; at: number; delivered: boolean; lost: boolean; withdrawn: boolean; interrupts: boolean; id: string };

// Note is any other event that is shown as a line.
export type Note = { kind: "note"; key: string; at: number; text: string; tone: "plain" | "good" | "warn" | "bad"; markdown?: boolean };

export type Entry = Call | Turn | Said | Note;

export type PlanItem = { id: string; title: string; status: string; parent: string; dependsOn: string[] };

export type Plan = { items: PlanItem[]; criteria: string[]; risks: string[] };

// Thread is a task's activity as it is shown.
export type Thread = {
  entries: Entry[];
  plan?: Plan;
  phase?: string;
  iteration: number;
  progress: number;
  // Milliseconds spent in each phase, of the iterations that are known.
  phases: Record<string, number>;
  // What an iteration took, by its number.
  iterations: { iteration: number; at: number; phases: Record<string, number>; next: string; happened: string }[];
  // The task has ended.
  ended: boolean;
  // What the run may use, as it began.
  limits: Record<string, number>;
  // The files that the run has changed so far, and the size of the largest; undefined until it
  // has changed one.
  changed?: { files: number; largest: number };
};

const text = (v: unknown): string => (typeof v === "string" ? v : v === undefined || v === null ? "" : String(v));
const number = (v: unknown): number => (typeof v === "number" ? v : Number(v ?? 0) || 0);
const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
const limitValue = (kind: unknown, v: unknown): string => (kind === "file_size" ? bytes(number(v)) : text(v));
const object = (v: unknown): Record<string, unknown> =>
  v !== null && typeof v === "object" && !Array.isArray(v) ? (v as Record<string, unknown>) : {};

// Threads builds a thread from events, incrementally.
export class Threads {
  private first: LiveEvent | undefined;
  private done = 0;
  private thread = empty();
  private calls = new Map<string, number>();
  private said = new Map<string, number>();
  // The note about requests with a credential that was added last.
  private used = { key: "", credential: "", requests: 0, problems: 0, hosts: [] as string[] };
  private states = ""; // the key of the note about the states that was added last
  private pull = ""; // the key of the note about the pull of the jail's image

  // of returns the thread of events. When events were only added, it extends the
  // thread of the call before.
  of(events: readonly LiveEvent[]): Thread {
    if (events[0] !== this.first || events.length < this.done) {
      this.first = events[0];
      this.done = 0;
      this.thread = empty();
      this.calls.clear();
      this.said.clear();
      this.pull = this.states = "";
      this.used = { ...this.used, key: "" };
    }
    if (events.length > this.done) {
      this.thread = { ...this.thread, entries: this.thread.entries.slice() };
      for (; this.done < events.length; this.done++) this.take(events[this.done]!);
    }
    return this.thread;
  }

  private push(entry: Entry): number {
    return this.thread.entries.push(entry) - 1;
  }

  // pulling shows the pull of the jail's image in one note, which changes as it goes on.
  private pulling(e: LiveEvent, words: string) {
    const last = this.thread.entries.length - 1;
    const before = this.thread.entries[last];
    if (before?.kind === "note" && before.key === this.pull) this.thread.entries[last] = { ...before, text: words, at: e.time };
    else {
      this.note(e, words);
      this.pull = `e${e.seq}`;
    }
  }

  // credentialUsed counts the requests with a credential in one note, until something else
  // happens.
  private credentialUsed(e: LiveEvent) {
    const p = e.payload;
    const last = this.thread.entries.length - 1;
    const before = this.thread.entries[last];
    const again = before?.kind === "note" && before.key === this.used.key && text(p.credential) === this.used.credential;
    const sum = again ? this.used : { key: `e${e.seq}`, credential: text(p.credential), requests: 0, problems: 0, hosts: [] };
    const hosts = [...new Set([...sum.hosts, ...list(p.hosts).map(text)])].slice(0, 10);
    this.used = { ...sum, requests: sum.requests + number(p.requests), problems: sum.problems + number(p.problems), hosts };
    const { requests, problems, credential } = this.used;
    const failed = problems ? `, ${problems} failed${p.problem ? `: ${text(p.problem)}` : ""}` : "";
    const words = `${requests} ${requests === 1 ? "request" : "requests"} with credential ${credential} to ${hosts.join(", ")}${failed}`;
    if (again) this.thread.entries[last] = { ...before, text: words, at: e.time, tone: problems ? "warn" : "plain" };
    else this.note(e, words, problems ? "warn" : "plain");
  }

  private note(e: LiveEvent, words: string, tone: Note["tone"] = "plain") {
    this.push({ kind: "note", key: `e${e.seq}`, at: e.time, text: words, tone });
  }

  // call changes a call, as a new object, so that only its row is drawn again.
  private call(e: LiveEvent, part: Partial<Call>) {
    const stepId = text(e.payload.step_id);
    const at = this.calls.get(stepId);
    const known = at === undefined ? undefined : (this.thread.entries[at] as Call);
    const call: Call = {
      ...(known ?? {
        kind: "call",
        key: stepId,
        stepId,
        number: number(e.payload.number),
        turn: number(e.payload.turn),
        tool: text(e.payload.tool),
        args: argumentsOf(object(e.payload.arguments)),
        reason: text(e.payload.reason),
        at: e.time,
        state: "proposed",
        logBytes: 0,
        files: [],
        refused: [],
        subtasks: [],
      }),
      ...part,
    };
    if (at === undefined) this.calls.set(stepId, this.push(call));
    else this.thread.entries[at] = call;
  }

  // moved shows changes of the task's state. Those that nobody needs to look into,
  // one after another, are one note.
  private moved(e: LiveEvent) {
    const p = e.payload;
    const kind = tone(text(p.to));
    const last = this.thread.entries.length - 1;
    const before = this.thread.entries[last];
    if (kind === "plain" && before?.kind === "note" && before.key === this.states) {
      this.thread.entries[last] = { ...before, text: `${before.text} → ${words(p.to)}`, at: e.time };
      return;
    }
    const told = before?.kind === "note" && text(p.reason) !== "" && before.text.includes(text(p.reason));
    this.note(e, `${words(p.from)} → ${words(p.to)}${p.reason && kind !== "plain" && !told ? `: ${text(p.reason)}` : ""}`, kind);
    if (kind === "plain") this.states = `e${e.seq}`;
  }

  // end closes what a task that has ended leaves open: its processes are gone, and
  // nobody is given its messages.
  private end() {
    this.thread.ended = true;
    this.thread.entries.forEach((entry, i) => {
      if (entry.kind === "said" && !entry.delivered && !entry.withdrawn) this.thread.entries[i] = { ...entry, lost: true };
      if (entry.kind !== "call") return;
      const left = { started: "stopped", granted: "not run", waiting: "not run", proposed: "not run" }[entry.state];
      if (left) this.thread.entries[i] = { ...entry, state: left, itemId: undefined };
    });
  }

  private take(e: LiveEvent) {
    const p = e.payload;
    const t = this.thread;
    switch (e.type) {
      case "thinking": {
        const usage = object(p.usage);
        this.push({
          kind: "turn",
          key: `e${e.seq}`,
          turn: number(p.turn),
          attempt: e.attempt,
          text: text(p.text),
          model: text(p.model),
          at: e.time,
          tokens: number(usage.input_tokens) + number(usage.output_tokens),
        });
        break;
      }
      case "tool_selected":
        this.call(e, { state: "granted", itemId: undefined, args: argumentsOf(object(p.arguments)), reason: text(p.reason) });
        break;
      case "tool_denied":
        this.call(e, { state: "denied", reason: text(p.reason), itemId: undefined });
        break;
      case "tool_rejected":
        this.note(e, `${text(p.tool)} was not called: ${text(p.message)}`, "warn");
        break;
      case "approval_requested":
      case "input_required":
      case "outcome_unknown":
        this.call(e, {
          state: e.type === "outcome_unknown" ? "unknown" : "waiting",
          itemId: text(p.item_id),
          reason: text(p.why) || text(p.question) || text(p.evidence),
        });
        break;
      case "inbox_answered":
        if (p.step_id) this.call(e, { itemId: undefined });
        this.note(e, `${text(p.by)} answered: ${text(p.answer)}${p.reason ? ` (${text(p.reason)})` : ""}${p.reply ? `: ${text(p.reply)}` : ""}`);
        break;
      case "inbox_expired":
        if (p.step_id) this.call(e, { itemId: undefined });
        this.note(e, `Expired without an answer: ${text(p.on_expiry)}`, "warn");
        break;
      case "browser_taken":
        this.note(e, `${text(p.by)} took over the browser: the agent's next call of it waits`, "warn");
        break;
      case "browser_acted":
        this.note(e, `${text(p.by)} ${text(p.what)}${p.secret === true ? " a secret" : p.text ? ` ${JSON.stringify(text(p.text))}` : ""}${p.on ? ` in the browser: ${text(p.on)}` : " in the browser"}${p.url ? ` at ${text(p.url)}` : ""}${p.unsure === true ? ", maybe without effect" : ""}`);
        break;
      case "browser_given":
        this.note(e, `The browser is the agent's again: ${text(p.reason)}${p.acts === undefined ? "" : ` (${number(p.acts)} recorded acts of ${text(p.by)})`}`);
        break;
      case "work_stopped":
        this.note(e, text(p.title), "warn");
        break;
      case "tool_executing":
        this.call(e, { state: "started", startedAt: e.time, itemId: undefined });
        break;
      case "tool_completed":
        this.call(e, {
          state: text(p.state).replace("STEP_STATE_", "").toLowerCase(),
          endedAt: e.time,
          outcome: object(p.outcome),
          errorCode: text(p.error_code) || undefined,
          logBytes: number(p.log_bytes),
          // Of its workspace, or of the machine that it ran on.
          files: [...list(object(p.workspace).paths).map(text), ...list(object(p.outcome).host_changes).map((c) => text(object(c).path))],
        });
        if (object(p.outcome).run_files !== undefined) {
          t.changed = { files: number(object(p.outcome).run_files), largest: number(object(p.outcome).run_largest_file) };
        }
        break;
      case "credential_used":
        this.credentialUsed(e);
        break;
      case "egress_refused":
        this.call(e, { refused: list(p.refused).map((r) => `${text(object(r).host)}: ${text(object(r).reason)}`) });
        break;
      case "message_received":
        this.said.set(
          text(p.message_id),
          this.push({ kind: "said", key: `e${e.seq}`, id: text(p.message_id), text: text(p.text), by: text(p.by), at: e.time, delivered: false, lost: false, withdrawn: false, interrupts: p.interrupt === true }),
        );
        break;
      case "message_delivered":
        for (const id of list(p.message_ids)) {
          const at = this.said.get(text(id));
          if (at !== undefined) t.entries[at] = { ...(t.entries[at] as Said), delivered: true };
        }
        break;
      case "message_withdrawn": {
        const at = this.said.get(text(p.message_id));
        if (at !== undefined) t.entries[at] = { ...(t.entries[at] as Said), withdrawn: true };
        break;
      }
      case "plan_updated":
        t.plan = {
          items: list(p.items).map((i) => {
            const item = object(i);
            return {
              id: text(item.id),
              title: text(item.title),
              status: text(item.status),
              parent: text(item.parent),
              dependsOn: list(item.depends_on).map(text),
            };
          }),
          criteria: list(p.success_criteria).map(text),
          risks: list(p.risks).map(text),
        };
        break;
      case "phase_changed":
        t.phase = text(p.phase);
        t.iteration = number(p.iteration) || t.iteration;
        if (p.from) t.phases = { ...t.phases, [text(p.from)]: (t.phases[text(p.from)] ?? 0) + number(p.from_ms) };
        break;
      case "progress_update":
        t.progress = number(p.progress);
        break;
      case "iteration_complete": {
        const reflection = object(p.reflection);
        const phases: Record<string, number> = {};
        for (const [name, ms] of Object.entries(object(p.phases_ms))) phases[name] = number(ms);
        t.iterations = [
          ...t.iterations,
          { iteration: number(p.iteration), at: e.time, phases, next: text(reflection.next_action), happened: text(reflection.what_happened) },
        ];
        break;
      }
      case "state_changed":
        if (p.to === "running") t.phase = t.phase ?? "";
        else t.phase = undefined;
        this.moved(e);
        if (["succeeded", "failed", "timed out", "cancelled"].includes(words(p.to))) this.end();
        break;
      case "execution_started":
      case "execution_resumed":
        t.limits = Object.fromEntries(Object.entries(object(p.limits)).map(([name, v]) => [name, number(v)]));
        break;
      case "agent.subtask.created":
      case "agent.handed_over": {
        const known = this.calls.get(text(p.step_id));
        const before = known === undefined ? [] : (t.entries[known] as Call).subtasks;
        this.call(e, { subtasks: [...before, { id: text(p.task_id), agent: text(p.agent), goal: text(p.goal) }] });
        break;
      }
      case "agent.subtask.ended": {
        const known = this.calls.get(text(p.step_id));
        if (known === undefined) break;
        this.call(e, {
          subtasks: (t.entries[known] as Call).subtasks.map((s) =>
            s.id === text(p.task_id) ? { ...s, state: p.error_code === partlyDone ? "partly done" : words(p.state), costMicros: number(p.cost_micros) } : s,
          ),
        });
        break;
      }
      case "pause_requested":
        this.note(e, p.on_next_tool ? `${text(p.by)} asked to pause before the next tool call` : `${text(p.by)} cancelled the pause`, "warn");
        break;
      case "limit_warning":
        this.note(e, `${words(p.kind)}: ${limitValue(p.kind, p.current)} of ${limitValue(p.kind, p.limit)} used`, "warn");
        break;
      case "cache_missed":
        this.note(e, `The provider's prompt cache was not used, so each turn costs more than it need: ${text(p.reason)}`, "warn");
        break;
      case "limit_reached":
        this.note(e, `${p.quota ? "Quota used up" : "Limit reached"}: ${words(p.kind)} ${limitValue(p.kind, p.limit)}`, "bad");
        break;
      case "execution_completed":
        this.push({ kind: "note", key: `e${e.seq}`, at: e.time, text: text(p.summary) || "Done", tone: "good", markdown: true });
        break;
      case "execution_failed":
      case "execution_paused":
        this.note(e, `${text(p.error_code)} ${text(p.message)}`.trim(), e.type === "execution_failed" ? "bad" : "warn");
        break;
      case "image_pulling":
        this.pulling(e, p.phase === "preparing" ? `Preparing ${text(p.image)}` : `Pulling ${text(p.image)}: ${bytes(number(p.bytes_done))} of ${bytes(number(p.bytes))}, ${number(p.layers_done)} of ${number(p.layers)} layers`);
        break;
      case "image_setup":
        this.pulling(e, `Setting up ${text(p.image)}, command ${number(p.line)} of ${number(p.lines)}: ${text(p.command)}`);
        break;
      case "image_ready":
        this.pulling(e, `Jail image: ${text(p.reference)}`);
        break;
      case "model_failover":
        this.note(e, `Switched to ${text(p.to_provider)} ${text(p.to_model)}: ${text(p.reason)}`, "warn");
        break;
      case "job_started":
        this.note(e, `Runs in the background: ${text(p.command)}`);
        break;
      case "job_ended":
        this.note(e, `${text(p.job_id)} ended: ${p.end_reason === "exited" ? `exit status ${number(p.exit_code)}` : words(p.end_reason)}`, p.exit_code === 0 ? undefined : "warn");
        break;
      case "workspace_undone":
        this.note(e, `Undone: ${files(number(p.files))} restored`, "warn");
        break;
      case "task.restored": {
        this.note(e, text(p.reason), "warn");
        const steps = list(p.steps) as Record<string, unknown>[];
        for (const s of steps) {
          this.push({ kind: "note", key: `e${e.seq}-${text(s.id)}`, at: e.time, text: `Recovered from ${text(s.node)}: ${text(s.what)} (${text(s.outcome)})`, tone: "warn" });
        }
        if (number(p.count) > steps.length) this.push({ kind: "note", key: `e${e.seq}-more`, at: e.time, text: `and ${number(p.count) - steps.length} more`, tone: "warn" });
        break;
      }
      case "task.escalated":
        this.note(e, `Escalated: ${text(p.cause)}`, "bad");
        break;
      case "agent.retry":
        this.note(e, `Retry ${text(p.retry)} of ${text(p.retries)}: ${text(p.message)}`, "warn");
        break;
      case "agent.suspended":
        this.note(e, `${text(p.agent)} is suspended: ${text(p.reason)}`, "bad");
        break;
    }
  }
}

function empty(): Thread {
  return { entries: [], iteration: 0, progress: 0, phases: {}, iterations: [], ended: false, limits: {} };
}

const files = (n: number) => (n === 1 ? "1 file" : `${n} files`);
const words = (v: unknown) => text(v).replace("TASK_STATE_", "").toLowerCase().replaceAll("_", " ");

function tone(state: string): Note["tone"] {
  switch (state.replace("TASK_STATE_", "").toLowerCase()) {
    case "succeeded":
      return "good";
    case "failed":
    case "timed_out":
    case "escalated":
      return "bad";
    case "paused":
    case "awaiting_approval":
    case "needs_input":
    case "review_needed":
      return "warn";
    default:
      return "plain";
  }
}
