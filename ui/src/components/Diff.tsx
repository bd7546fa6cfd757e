import { Columns2, Rows2 } from "lucide-react";
import { useMemo, useState, useSyncExternalStore, type ClipboardEvent, type PointerEvent } from "react";
import { setComfort, useComfort } from "@/app/comfort";
import { Button } from "./Button";
import { cx } from "./cx";
import { copyExactly, InParts, Pieces } from "./Literal";
import { note, pieces, type Piece } from "./marks";

// DiffRow is a line of a comparison with its numbers: the same in both texts,
// gone, new, or words about them.
export type DiffRow = { sign: " " | "-" | "+" | "@"; text: string; before?: number; after?: number };

type Row = DiffRow & { pieces: Piece[] };
type Fold = { fold: number; rows: Row[] };

// How many lines stand around what differs, and how many are folded at least.
const margin = 3;
const least = 6;

// DiffRows shows a comparison, exactly as the texts are. It is coloured, and says
// by its signs what the colours mean. Lines that are the same are folded, and
// open where somebody wants them. Where there is room, the two texts can stand
// side by side.
export function DiffRows(props: {
  rows: readonly DiffRow[];
  label: string;
  // Called with the number of a line that is clicked.
  onLine?: (line: number) => void;
}) {
  const { onLine } = props;
  const all = useMemo(() => props.rows.map((r): Row => ({ ...r, pieces: pieces(r.text) })), [props.rows]);
  const warning = useMemo(() => note(all.flatMap((r) => r.pieces.filter((p) => typeof p === "object"))), [all]);
  const parts = useMemo(() => inParts(folded(all)), [all]);
  const wide = useWide();
  const { diff } = useComfort();
  // A text that is only new or only gone has nothing beside it.
  const both = useMemo(() => all.some((r) => r.sign === "-") && all.some((r) => r.sign === "+"), [all]);
  const split = wide && both && diff === "split";
  return (
    <div className="space-y-1">
      {warning && (
        <p role="note" className="text-xs text-warn">
          {warning}
        </p>
      )}
      <InParts label={props.label} parts={parts} what={(part) => `${part.length} rows`}>
        {(part) => (
          <div className="relative">
            <div
              tabIndex={0}
              role="group"
              dir="ltr"
              aria-label={props.label}
              data-testid="diff"
              data-split={split || undefined}
              onPointerDown={split ? selectSide : undefined}
              onCopy={split ? copySide : copyExactly}
              onClick={
                onLine &&
                ((e) => {
                  const row = e.target instanceof Element ? e.target.closest<HTMLElement>(".diff-row") : null;
                  if (row?.dataset.line && getSelection()?.isCollapsed !== false) onLine(Number(row.dataset.line));
                })
              }
              className="literal max-h-[60vh] overflow-auto rounded border bg-raised py-1 font-mono text-xs break-words whitespace-pre-wrap"
            >
              {split ? <Sides of={part} /> : part.map((r, i) => ("fold" in r ? <Folded key={i} of={r} /> : <Line key={i} of={r} />))}
            </div>
            {wide && both && (
              <span className="absolute top-1 right-1">
                <Button
                  small
                  look="quiet"
                  aria-label="Side by side"
                  aria-pressed={split}
                  title={split ? "Show one column" : "Show side by side"}
                  onClick={() => setComfort({ diff: split ? "unified" : "split" })}
                >
                  {split ? <Rows2 aria-hidden className="size-3.5" /> : <Columns2 aria-hidden className="size-3.5" />}
                </Button>
              </span>
            )}
          </div>
        )}
      </InParts>
    </div>
  );
}

// The width of a window, in pixels, in which two columns of code can be read.
const wideAt = "(min-width: 1024px)";

function useWide(): boolean {
  return useSyncExternalStore(subscribeWide, () => typeof matchMedia === "function" && matchMedia(wideAt).matches);
}

function subscribeWide(fn: () => void) {
  if (typeof matchMedia !== "function") return () => undefined;
  const query = matchMedia(wideAt);
  query.addEventListener("change", fn);
  return () => query.removeEventListener("change", fn);
}

// What is selected is of the side in which the selection begins.
function selectSide(e: PointerEvent<HTMLElement>) {
  const side = e.target instanceof Element ? e.target.closest<HTMLElement>("[data-side]")?.dataset.side : undefined;
  if (side) e.currentTarget.dataset.selecting = side;
  else delete e.currentTarget.dataset.selecting;
}

function copySide(e: ClipboardEvent<HTMLElement>) {
  const { selecting } = e.currentTarget.dataset;
  copyExactly(e, selecting && `[data-side]:not([data-side=${selecting}])`);
}

type Pair<R> = { before?: R; after?: R };

// pairsOf puts lines that are gone beside those that took their place.
export function pairsOf<R extends DiffRow>(rows: readonly R[]): Pair<R>[] {
  const out: Pair<R>[] = [];
  for (let i = 0; i < rows.length; ) {
    if (rows[i]!.sign !== "-" && rows[i]!.sign !== "+") {
      out.push({ before: rows[i], after: rows[i++] });
      continue;
    }
    const gone = i;
    while (rows[i]?.sign === "-") i++;
    const added = i;
    while (rows[i]?.sign === "+") i++;
    for (let n = 0; n < Math.max(added - gone, i - added); n++) {
      out.push({ before: gone + n < added ? rows[gone + n] : undefined, after: added + n < i ? rows[added + n] : undefined });
    }
  }
  return out;
}

// Sides shows the text before on the left, and the text after on the right.
function Sides({ of }: { of: readonly (Row | Fold)[] }) {
  const runs: (Row[] | Fold)[] = [];
  for (const r of of) {
    const last = runs.at(-1);
    if ("fold" in r) runs.push(r);
    else if (Array.isArray(last)) last.push(r);
    else runs.push([r]);
  }
  return runs.map((run, i) =>
    Array.isArray(run) ? pairsOf(run).map((p, j) => <Beside key={`${i}.${j}`} of={p} />) : <Folded key={i} of={run} split />,
  );
}

function Beside({ of }: { of: Pair<Row> }) {
  const { before, after } = of;
  if (before && before.sign === "@") return <Line of={before} />;
  return (
    <div className="grid grid-cols-2">
      <div data-side="before" className="min-w-0 border-r">
        {before ? <Line of={before} number={before.before} /> : <div className="h-full bg-panel" />}
      </div>
      <div data-side="after" className="min-w-0">
        {after ? <Line of={after} number={after.after} /> : <div className="h-full bg-panel" />}
      </div>
    </div>
  );
}

// Line is a line of the one column, or of a side.
function Line({ of, number }: { of: Row; number?: number }) {
  return (
    <div
      className={cx(
        "diff-row",
        of.sign === "+" && "bg-good/10 text-good",
        of.sign === "-" && "bg-bad/10 text-bad",
        of.sign === "@" && "text-info",
      )}
      data-number={number ?? of.after ?? of.before}
      data-line={of.after ?? of.before}
      data-sign={of.sign === "@" ? "" : of.sign}
    >
      <Pieces of={of.pieces} />
      {"\n"}
    </div>
  );
}

function Folded({ of, split }: { of: Fold; split?: boolean }) {
  const [open, setOpen] = useState(false);
  if (open) return of.rows.map((r, i) => (split ? <Beside key={i} of={{ before: r, after: r }} /> : <Line key={i} of={r} />));
  return (
    <button type="button" className="min-h-6 w-full px-2 text-left text-dim hover:underline" onClick={() => setOpen(true)}>
      Show {of.fold} unchanged {of.fold === 1 ? "line" : "lines"}
    </button>
  );
}

// folded puts long runs of lines that are the same into folds.
function folded(rows: Row[]): (Row | Fold)[] {
  const out: (Row | Fold)[] = [];
  for (let from = 0; from < rows.length; ) {
    let to = from;
    while (to < rows.length && rows[to]!.sign === " ") to++;
    const first = from === 0 ? from : from + margin;
    const last = to === rows.length ? to : to - margin;
    if (last - first >= least) {
      out.push(...rows.slice(from, first), { fold: last - first, rows: rows.slice(first, last) }, ...rows.slice(last, to));
    } else {
      out.push(...rows.slice(from, to));
    }
    if (to < rows.length) out.push(rows[to]!);
    from = to + 1;
  }
  return out;
}

const mostUnits = 128 * 1024;
const mostNodes = 4_000;

function inParts(rows: (Row | Fold)[]): (Row | Fold)[][] {
  const parts: (Row | Fold)[][] = [[]];
  let [units, nodes] = [0, 0];
  for (const r of rows) {
    const [u, n] = "fold" in r ? [0, 1] : [r.text.length, 1 + r.pieces.length];
    if (nodes > 0 && (units + u > mostUnits || nodes + n > mostNodes)) {
      parts.push([]);
      [units, nodes] = [0, 0];
    }
    parts.at(-1)!.push(r);
    units += u;
    nodes += n;
  }
  return parts;
}

// Diff shows a unified diff.
export function Diff(props: { text: string; label: string; onLine?: (line: number) => void }) {
  const rows = useMemo(() => rowsOf(props.text), [props.text]);
  return <DiffRows rows={rows} label={props.label} onLine={props.onLine} />;
}

function rowsOf(unified: string): DiffRow[] {
  let [before, after] = [0, 0];
  return unified
    .replace(/\n$/, "")
    .split("\n")
    .map((line): DiffRow => {
      const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
      if (hunk) [before, after] = [Number(hunk[1]), Number(hunk[2])];
      if (hunk || after + before === 0 || line.startsWith("\\")) return { sign: "@", text: line };
      const text = line.slice(1);
      if (line.startsWith("+")) return { sign: "+", after: after++, text };
      if (line.startsWith("-")) return { sign: "-", before: before++, text };
      return { sign: " ", before: before++, after: after++, text };
    });
}
