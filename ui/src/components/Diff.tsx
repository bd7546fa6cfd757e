import { useMemo, useState } from "react";
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
// open where somebody wants them.
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
  return (
    <div className="space-y-1">
      {warning && (
        <p role="note" className="text-xs text-warn">
          {warning}
        </p>
      )}
      <InParts label={props.label} parts={parts} what={(part) => `${part.length} rows`}>
        {(part) => (
          <div
            tabIndex={0}
            role="group"
            dir="ltr"
            aria-label={props.label}
            data-testid="diff"
            onCopy={copyExactly}
            onClick={
              onLine &&
              ((e) => {
                const row = e.target instanceof Element ? e.target.closest<HTMLElement>(".diff-row") : null;
                if (row?.dataset.number && getSelection()?.isCollapsed !== false) onLine(Number(row.dataset.number));
              })
            }
            className="literal max-h-[60vh] overflow-auto rounded border bg-raised py-1 font-mono text-xs break-words whitespace-pre-wrap"
          >
            {part.map((r, i) => ("fold" in r ? <Folded key={i} of={r} /> : <Line key={i} of={r} />))}
          </div>
        )}
      </InParts>
    </div>
  );
}

function Line({ of }: { of: Row }) {
  return (
    <div
      className={cx(
        "diff-row",
        of.sign === "+" && "bg-good/10 text-good",
        of.sign === "-" && "bg-bad/10 text-bad",
        of.sign === "@" && "text-info",
      )}
      data-number={of.after ?? of.before}
      data-sign={of.sign === "@" ? "" : of.sign}
    >
      <Pieces of={of.pieces} />
      {"\n"}
    </div>
  );
}

function Folded({ of }: { of: Fold }) {
  const [open, setOpen] = useState(false);
  if (open) return of.rows.map((r, i) => <Line key={i} of={r} />);
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
