import { Link } from "@tanstack/react-router";
import { Check, ChevronDown, ChevronRight, MessageSquare, Wrench } from "lucide-react";
import { memo, useMemo, useState } from "react";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Id } from "@/components/Id";
import { Literal, Prose } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { bytes, count, dollars } from "@/components/money";
import { showError } from "@/components/showError";
import { duration, Time } from "@/components/Time";
import { Tail } from "@/features/log/Tail";
import { InboxInline } from "@/features/inbox/InboxInline";
import { may } from "@/features/session/queries";
import { tasks } from "./actions";
import { quiet, stateOf, wentWrong } from "./calls";
import type { Call, Entry, Said, Subtask, Turn } from "./thread";
import { Seen } from "./Seen";
import type { Progress } from "@/live/event";
import { CallArguments, Output, titleOf } from "./tools";

// Row is an entry of a thread.
export const Row = memo(function Row({ entry, taskId, progress }: { entry: Entry; taskId: string; progress?: Progress }) {
  switch (entry.kind) {
    case "turn":
      return <TurnRow turn={entry} />;
    case "call":
      return <CallRow call={entry} taskId={taskId} progress={progress} />;
    case "said":
      return <SaidRow said={entry} taskId={taskId} />;
    case "note":
      return (
        <div
          className={cx(
            "flex items-start gap-2 text-xs",
            entry.tone === "plain" ? "text-dim" : { good: "text-good", warn: "text-warn", bad: "text-bad" }[entry.tone],
          )}
        >
          {entry.markdown ? <Markdown className="flex-1 text-ink" text={entry.text} /> : <Prose className="min-w-0 flex-1" text={entry.text} />}
          <Time at={entry.at} />
        </div>
      );
  }
});

function TurnRow({ turn }: { turn: Turn }) {
  return (
    <article className="space-y-1 pt-2">
      <header className="flex gap-2 text-xs text-dim">
        <span>Turn {turn.turn}</span>
        <span>{turn.model}</span>
        {turn.tokens > 0 && <span>{count(turn.tokens)} tokens</span>}
        <span className="flex-1" />
        <Time at={turn.at} />
      </header>
      {turn.text && <Markdown text={turn.text} />}
    </article>
  );
}

// SaidRow is a person's message. Until the agent gets it, it can be withdrawn.
function SaidRow({ said, taskId }: { said: Said; taskId: string }) {
  const session = useSession();
  const [busy, setBusy] = useState(false);
  const waits = !said.delivered && !said.lost && !said.withdrawn;
  const where = said.withdrawn
    ? "withdrawn before the agent got it"
    : said.delivered
      ? "delivered to the agent"
      : said.lost
        ? "not delivered: the task ended before"
        : said.interrupts
          ? "stops what the agent does; delivered next"
          : "will be delivered with the agent's next turn";
  const withdraw = async () => {
    setBusy(true);
    try {
      await tasks.withdrawMessage({ taskId, messageId: said.id });
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <article className="ml-10 flex gap-2 rounded-md border border-accent bg-panel p-2">
      <MessageSquare aria-hidden className="mt-0.5 size-4 shrink-0 text-accent" />
      <div className="min-w-0 flex-1">
        <p className={cx(said.withdrawn && "text-dim line-through")}><Prose text={said.text} /></p>
        <p className={cx("text-xs", said.lost ? "text-warn" : "text-dim")}>
          {said.by} · <Time at={said.at} /> · {where}
        </p>
      </div>
      {waits && may(session, "basic") && <Button small look="quiet" busy={busy} onClick={() => void withdraw()}>Withdraw</Button>}
    </article>
  );
}

// CallRow is a tool call: one line, unless it changed something, failed, runs, or
// waits for somebody.
function CallRow({ call, taskId, progress }: { call: Call; taskId: string; progress?: Progress }) {
  const calm = quiet(call);
  const [chosen, setOpen] = useState<boolean>();
  const open = chosen ?? !calm;
  const title = useMemo(() => titleOf(call), [call]);
  const took = call.startedAt && call.endedAt ? duration(call.endedAt - call.startedAt) : undefined;
  const { word, tone } = stateOf(call);
  return (
    <article
      className={cx("rounded-md", open && "space-y-1.5 border bg-panel p-2.5", open && wentWrong(call) && "border-bad")}
      data-step={call.number}
      data-state={call.state}
    >
      <header className="flex min-h-6 items-center gap-x-2 gap-y-1">
        <button
          type="button"
          aria-expanded={open}
          className="flex min-w-0 flex-1 items-center gap-2 text-left"
          onClick={() => setOpen(!open)}
        >
          {open ? <ChevronDown aria-hidden className="size-3.5 shrink-0 text-dim" /> : <ChevronRight aria-hidden className="size-3.5 shrink-0 text-dim" />}
          {calm && call.state === "succeeded" ? <Check aria-hidden className="size-3.5 shrink-0 text-good" /> : <Wrench aria-hidden className="size-3.5 shrink-0 text-dim" />}
          <span className="shrink-0 font-mono text-xs text-dim">
            {call.number} <Literal text={call.tool} />
          </span>
          <span className={cx("min-w-0 flex-1", open ? "break-words" : "truncate text-xs")}>{title}</span>
        </button>
        {!open && call.logBytes > 0 && <span className="shrink-0 text-xs text-dim">{bytes(call.logBytes)}</span>}
        {took && <span className="shrink-0 text-xs text-dim">{took}</span>}
        {(open || call.state !== "succeeded") && (
          <Badge tone={tone} dot live={call.state === "started"}>
            {word}
          </Badge>
        )}
      </header>
      {open && progress && call.state === "started" && <Running progress={progress} />}
      {open && <CallBody call={call} taskId={taskId} />}
    </article>
  );
}

// Running says how far a command is.
function Running({ progress: p }: { progress: Progress }) {
  return (
    <p className="flex min-w-0 gap-2 text-xs text-dim" data-testid="progress">
      <span className="shrink-0 tabular-nums">
        {bytes(p.logBytes)}
        {p.cpu !== undefined && `, ${p.cpu < 10 ? p.cpu.toFixed(1) : Math.round(p.cpu)} s CPU`}
      </span>
      {p.lastLine && <Literal className="min-w-0 flex-1 truncate font-mono" text={p.lastLine} />}
    </p>
  );
}

function CallBody({ call, taskId }: { call: Call; taskId: string }) {
  const tail = call.tool === "shell_exec" && call.endedAt !== undefined && call.logBytes > 0;
  return (
    <>
      {call.errorCode && (
        <p className="text-xs text-bad">
          <Id value={call.errorCode} whole /> <Literal text={String(call.outcome?.message ?? call.outcome?.error ?? "")} />
        </p>
      )}
      {call.refused.map((r) => (
        <p key={r} className="text-xs text-warn">
          Blocked by egress rules: <Literal text={r} />
        </p>
      ))}
      {call.subtasks.map((s) => (
        <SubtaskLine key={s.id} of={s} />
      ))}
      {call.files.length > 0 && (
        <p className="flex flex-wrap items-center gap-1.5 text-xs text-dim">
          Changed
          {call.files.map((f) => (
            <Link key={f} to="/tasks/$task" params={{ task: taskId }} search={{ tab: "changes", file: f }} className="rounded border px-1.5 font-mono hover:bg-raised">
              <Literal text={f} />
            </Link>
          ))}
        </p>
      )}
      {call.itemId && <InboxInline itemId={call.itemId} />}
      {tail && <Tail execId={call.stepId} lines={wentWrong(call) ? 12 : 4} label={`Last lines of step ${call.number}`} />}
      <div className="flex flex-wrap items-start gap-x-4">
        <CallArguments call={call} taskId={taskId} />
        <Output call={call} />
        <Seen call={call} taskId={taskId} />
        <Link to="/tasks/$task" params={{ task: taskId }} search={{ tab: "steps", step: call.number }} className="inline-flex min-h-6 items-center text-xs text-accent hover:underline">
          Open step
        </Link>
      </div>
    </>
  );
}

// SubtaskLine says to whom work was given, what for, and what became of it.
function SubtaskLine({ of }: { of: Subtask }) {
  return (
    <p className="flex flex-wrap items-center gap-x-2 text-xs">
      <Link to="/tasks/$task" params={{ task: of.id }} search={{}} className="text-accent hover:underline">
        {of.agent || "Subtask"}
      </Link>
      <span className="min-w-0 flex-1 truncate"><Literal text={of.goal} /></span>
      {of.costMicros !== undefined && <span className="text-dim">{dollars(of.costMicros)}</span>}
      <Badge tone={of.state === "succeeded" ? "good" : of.state === "partly done" ? "warn" : of.state ? "bad" : "accent"}>{of.state ?? "running"}</Badge>
    </p>
  );
}
