import { CircleHelp, CircleX, Info, MessageSquare, Sparkles, Wrench, type LucideIcon } from "lucide-react";
import { memo, useLayoutEffect, useRef } from "react";
import { Badge, type Tone } from "@/components/Badge";
import { cx } from "@/components/cx";
import { Lines, useLines } from "@/components/Lines";
import { Literal } from "@/components/Literal";
import { stateOf, type History, type RowKind, type ThreadRow } from "./history";

const rowHeight = 32;
const icons: Record<RowKind, LucideIcon> = { turn: Sparkles, step: Wrench, message: MessageSquare, question: CircleHelp, problem: CircleX, note: Info };
const tones: Record<string, Tone> = { succeeded: "good", failed: "bad", denied: "bad", waiting: "warn", unknown: "warn", started: "accent", deferred: "warn" };

// Thread is what had happened until a position, one line each; a click goes there. No more
// is drawn than is in sight.
export function Thread(props: { history: History; at: number; onSeek: (at: number) => void }) {
  const { history, at, onSeek } = props;
  const box = useRef<HTMLDivElement>(null);
  const shown = history.rowsAt(at);
  const current = history.rowOf(at);
  const virtual = useLines(box, shown, rowHeight);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    // The row of the position stays in sight, with what came before it.
    const y = current * rowHeight;
    if (y < el.scrollTop || y > el.scrollTop + el.clientHeight - 3 * rowHeight) virtual.scrollToOffset(Math.max(0, y - el.clientHeight * 0.66));
  }, [current, shown, virtual]);
  return (
    <div ref={box} role="group" aria-label="Thread until this moment" tabIndex={0} className="min-h-0 overflow-y-auto">
      <Lines
        ordered
        of={virtual}
        height={rowHeight}
        row={(i) => {
          const row = history.rows[i];
          return row && <Line row={row} state={stateOf(row, at)} current={i === current} onSeek={onSeek} />;
        }}
      />
    </div>
  );
}

const Line = memo(function Line(props: { row: ThreadRow; state: string; current: boolean; onSeek: (at: number) => void }) {
  const { row, state, current, onSeek } = props;
  const Icon = icons[row.kind];
  return (
    <button
      type="button"
      aria-current={current ? "step" : undefined}
      data-row={row.kind}
      data-step={row.step || undefined}
      onClick={() => onSeek(row.changes.at(-1)?.at ?? row.from)}
      className={cx(
        "flex h-full w-full items-center gap-2 px-4 text-left hover:bg-raised",
        current && "bg-raised shadow-[inset_3px_0_0_var(--accent)]",
        row.kind === "step" && "pl-8",
      )}
    >
      <Icon
        aria-hidden
        className={cx("size-3.5 shrink-0", row.kind === "problem" ? "text-bad" : row.kind === "question" ? "text-warn" : row.kind === "message" ? "text-accent" : "text-dim")}
      />
      {row.kind === "step" && <span className="shrink-0 font-mono text-xs text-dim">{row.step} <Literal text={row.tool} /></span>}
      {row.kind === "turn" && <span className="shrink-0 text-xs text-dim">Turn {row.turn}</span>}
      <span className={cx("min-w-0 flex-1 truncate", row.kind === "step" ? "font-mono text-xs" : row.kind === "note" ? "text-xs text-dim" : "")}>
        <Literal text={row.title.split("\n", 1)[0] ?? ""} />
      </span>
      {state && <Badge tone={tones[state] ?? "neutral"}>{state}</Badge>}
    </button>
  );
});
