import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, MessageSquare, Wrench } from "lucide-react";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { Badge, type Tone } from "@/components/Badge";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal, Prose } from "@/components/Literal";
import { count } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { duration, Time } from "@/components/Time";
import { InboxInline } from "@/features/inbox/InboxInline";
import { useLive } from "@/live/context";
import type { TaskView } from "@/live/store";
import type { Call, Entry, Thread } from "./thread";
import { CallArguments, Output, titleOf } from "./tools";

const callTones: Record<string, Tone> = {
  succeeded: "good",
  failed: "bad",
  denied: "bad",
  waiting: "warn",
  unknown: "warn",
  started: "accent",
  granted: "info",
};

// ThreadView shows a task's activity, newest at the end, and stays there until a
// person scrolls up.
export function ThreadView(props: { taskId: string; view: TaskView; thread: Thread }) {
  const { view, thread, taskId } = props;
  const { store } = useLive();
  const box = useRef<HTMLDivElement>(null);
  const [stuck, setStuck] = useState(true);
  const entries = thread.entries;
  const speaking = view.speaking;
  const count = entries.length + (speaking ? 1 : 0);
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => 64,
    getItemKey: (i) => entries[i]?.key ?? "speaking",
    overscan: 8,
    anchorTo: "end",
  });
  const total = virtual.getTotalSize();
  useEffect(() => {
    const el = box.current;
    if (stuck && el) el.scrollTop = el.scrollHeight;
  }, [stuck, total, count, speaking?.text]);
  if (view.state === "loading") return <div className="p-4"><Skeletons rows={6} className="h-14 w-full" /></div>;
  if (view.state === "failed") return <div className="p-4"><Problem error={view.error} /></div>;
  if (count === 0) return <Empty title="No activity yet">The agent's reasoning and actions appear here live.</Empty>;
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={box}
        role="log"
        aria-live="off"
        aria-label="Agent activity"
        tabIndex={0}
        className="absolute inset-0 overflow-y-auto"
        style={{ overflowAnchor: "none" }}
        onWheel={(e) => e.deltaY < 0 && setStuck(false)}
        onTouchMove={() => setStuck(false)}
        onKeyDown={(e) => ["PageUp", "ArrowUp", "Home"].includes(e.key) && setStuck(false)}
        onScroll={(e) => {
          const el = e.currentTarget;
          if (!stuck && el.scrollHeight - el.scrollTop - el.clientHeight < 8) setStuck(true);
          if (el.scrollTop < 200 && !view.whole && !stuck) void store.older(taskId);
        }}
      >
        {!view.whole && (
          <div className="p-3 text-center">
            <Button small busy={view.loadingOlder} onClick={() => (setStuck(false), void store.older(taskId))}>
              Load earlier events
            </Button>
          </div>
        )}
        <div style={{ height: total, position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const entry = entries[item.index];
            return (
              <div
                key={item.key}
                data-index={item.index}
                ref={virtual.measureElement}
                className="absolute inset-x-0 px-4 py-1.5"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {entry ? (
                  <Row entry={entry} taskId={taskId} />
                ) : (
                  <div className="rounded-md border border-dashed p-3" data-testid="speaking">
                    <p className="pb-1 text-xs text-dim">Thinking</p>
                    <p><Prose text={speaking?.text ?? ""} /></p>
                  </div>
                )}
              </div>
            );
          })}
        </div>
      </div>
      {!stuck && (
        <Button className="absolute right-4 bottom-3 shadow" small onClick={() => setStuck(true)}>
          <ArrowDown aria-hidden className="size-3.5" /> Jump to latest
        </Button>
      )}
    </div>
  );
}

const Row = memo(function Row({ entry, taskId }: { entry: Entry; taskId: string }) {
  switch (entry.kind) {
    case "turn":
      return (
        <article className="space-y-1">
          <header className="flex gap-2 text-xs text-dim">
            <span>Turn {entry.turn}</span>
            <span>{entry.model}</span>
            {entry.tokens > 0 && <span>{count(entry.tokens)} tokens</span>}
            <span className="flex-1" />
            <Time at={entry.at} />
          </header>
          {entry.text && <p><Prose text={entry.text} /></p>}
        </article>
      );
    case "call":
      return <CallRow call={entry} taskId={taskId} />;
    case "said":
      return (
        <article className="ml-10 flex gap-2 rounded-md border border-accent bg-panel p-2">
          <MessageSquare aria-hidden className="mt-0.5 size-4 shrink-0 text-accent" />
          <div className="min-w-0 flex-1">
            <p><Prose text={entry.text} /></p>
            <p className="text-xs text-dim">
              {entry.by} · <Time at={entry.at} /> · {entry.delivered ? "delivered to the agent" : "will be delivered with the agent's next turn"}
            </p>
          </div>
        </article>
      );
    case "note":
      return (
        <p
          className={cx(
            "flex gap-2 text-xs",
            entry.tone === "good" ? "text-good" : entry.tone === "warn" ? "text-warn" : entry.tone === "bad" ? "text-bad" : "text-dim",
          )}
        >
          <Prose className="min-w-0 flex-1" text={entry.text} />
          <Time at={entry.at} />
        </p>
      );
  }
});

function CallRow({ call, taskId }: { call: Call; taskId: string }) {
  const title = useMemo(() => titleOf(call), [call]);
  const took = call.startedAt && call.endedAt ? duration(call.endedAt - call.startedAt) : undefined;
  const exit = call.outcome?.exit_code;
  return (
    <article className="space-y-1.5 rounded-md border bg-panel p-2.5" data-step={call.number} data-state={call.state}>
      <header className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Wrench aria-hidden className="size-3.5 shrink-0 text-dim" />
        <span className="font-mono text-xs text-dim">
          {call.number} <Literal text={call.tool} />
        </span>
        <span className="min-w-0 flex-1 break-words">{title}</span>
        {exit !== undefined && exit !== 0 && <Badge tone="bad">exit {String(exit)}</Badge>}
        {took && <span className="text-xs text-dim">{took}</span>}
        <Badge tone={callTones[call.state] ?? "neutral"} dot live={call.state === "started"}>
          {call.state}
        </Badge>
      </header>
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
      {call.files.length > 0 && (
        <p className="text-xs break-words text-dim">
          Changed{" "}
          {call.files.map((f, i) => (
            <span key={f} className="font-mono">
              {i > 0 && ", "}
              <Literal text={f} />
            </span>
          ))}
        </p>
      )}
      {call.itemId && <InboxInline itemId={call.itemId} />}
      <CallArguments call={call} taskId={taskId} />
      <Output call={call} />
    </article>
  );
}

