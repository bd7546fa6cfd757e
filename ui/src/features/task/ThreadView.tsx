import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ChevronRight } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Prose } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { useLive } from "@/live/context";
import type { TaskView } from "@/live/store";
import { filters, shows, type Filter } from "./calls";
import { Row } from "./ThreadRow";
import type { Thread } from "./thread";

// ThreadView shows a task's activity, newest at the end, and stays there until a
// person scrolls up.
export function ThreadView(props: { taskId: string; view: TaskView; thread: Thread }) {
  const { view, thread, taskId } = props;
  const { store } = useLive();
  const box = useRef<HTMLDivElement>(null);
  const [stuck, setStuck] = useState(true);
  const [filter, setFilter] = useState<Filter>("all");
  const [at, setAt] = useState(-1);
  const entries = useMemo(() => (filter === "all" ? thread.entries : thread.entries.filter((e) => shows(filter, e))), [thread.entries, filter]);
  const speaking = filter === "all" ? view.speaking : undefined;
  const count = entries.length + (speaking ? 1 : 0);
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => 64,
    getItemKey: (i) => entries[i]?.key ?? "speaking",
    overscan: 8,
    anchorTo: "end",
  });
  // step goes to the next call, or the one before.
  const step = (by: 1 | -1) => {
    const begin = at >= 0 && at < entries.length ? at : by < 0 ? entries.length : -1;
    for (let i = begin + by; i >= 0 && i < entries.length; i += by) {
      if (entries[i]!.kind !== "call") continue;
      setStuck(false);
      setAt(i);
      virtual.scrollToIndex(i, { align: "center" });
      return;
    }
  };
  useShortcut("j", "Next step", "Task", () => step(1));
  useShortcut("k", "Previous step", "Task", () => step(-1));
  useShortcut("o", "Open or close the step", "Task", () => box.current?.querySelector<HTMLElement>("[data-at] button[aria-expanded]")?.click());
  useEffect(() => setAt(-1), [filter]);
  const total = virtual.getTotalSize();
  useEffect(() => {
    const el = box.current;
    if (stuck && el) el.scrollTop = el.scrollHeight;
  }, [stuck, total, count, speaking?.text]);
  if (view.state === "loading") return <div className="p-4"><Skeletons rows={6} className="h-14 w-full" /></div>;
  if (view.state === "failed") return <div className="p-4"><Problem error={view.error} /></div>;
  if (thread.entries.length === 0 && !speaking) return <Empty title="No activity yet">The agent's reasoning and actions appear here live.</Empty>;
  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <div role="group" aria-label="Show" className="flex flex-wrap gap-1 border-b px-4 py-1.5">
        {filters.map((f) => (
          <Button key={f} small look={f === filter ? "plain" : "quiet"} aria-pressed={f === filter} onClick={() => setFilter(f)}>
            {f[0]!.toUpperCase() + f.slice(1)}
          </Button>
        ))}
        <span className="flex-1" />
        <Button small look="quiet" aria-label="Previous step" title="Previous step (k)" onClick={() => step(-1)}>
          <ChevronRight aria-hidden className="size-3.5 -rotate-90" />
        </Button>
        <Button small look="quiet" aria-label="Next step" title="Next step (j)" onClick={() => step(1)}>
          <ChevronRight aria-hidden className="size-3.5 rotate-90" />
        </Button>
      </div>
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
        {count === 0 && <p className="p-4 text-dim">None so far.</p>}
        <div style={{ height: total, position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const entry = entries[item.index];
            return (
              <div
                key={item.key}
                data-index={item.index}
                ref={virtual.measureElement}
                data-at={item.index === at || undefined}
                className={cx("absolute inset-x-0 px-4 py-1", item.index === at && "border-l-2 border-accent")}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {entry ? (
                  <Row entry={entry} taskId={taskId} progress={entry.kind === "call" ? view.progress?.[entry.stepId] : undefined} />
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
    </div>
  );
}

