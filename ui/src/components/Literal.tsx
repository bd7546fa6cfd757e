import { useEffect, useMemo, useState, type ClipboardEvent, type ReactNode } from "react";
import { Button } from "./Button";
import { cx } from "./cx";
import { note, pieces, type Piece } from "./marks";
import { partsOf, type Line } from "./parts";
import { useProgress } from "./reading";

// Letters that are written from right to left: each run of them stands for
// itself, so that what is between two of them keeps its place.
const rightToLeft = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)/u;

// Pieces draws pieces: marks are chips with the character's name. A chip holds
// the character itself, so that what is copied is the text.
export function Pieces(props: { of: readonly Piece[] }): ReactNode {
  return props.of.map((p, i) =>
    typeof p === "string" ? (
      rightToLeft.test(p) ? p.split(rightToLeft).map((t, j) => (j % 2 ? <bdi key={`${i}.${j}`}>{t}</bdi> : t)) : p
    ) : (
      <span key={i} role="img" className="chip" title={p.name} aria-label={labelOf(p)} data-mark={labelOf(p)}>
        {p.original}
      </span>
    ),
  );
}

const labelOf = (p: Exclude<Piece, string>) => (p.count > 1 ? `${p.name} × ${p.count}` : p.name);

// copyExactly puts what is selected on the clipboard as it is in the text:
// browsers replace some characters. What a selector names is left out.
export function copyExactly(e: ClipboardEvent, without?: string) {
  const selection = getSelection();
  if (!selection || selection.rangeCount === 0) return;
  const range = selection.getRangeAt(0);
  if (!e.currentTarget.contains(range.commonAncestorContainer)) return;
  const content = range.cloneContents();
  if (without) for (const el of content.querySelectorAll(without)) el.remove();
  e.clipboardData.setData("text/plain", content.textContent ?? "");
  e.preventDefault();
}

// Literal shows text on one line, exactly as it is. Text that may be edited,
// such as a name or a goal, is shown whole: className can wrap it.
export function Literal(props: { text: string; className?: string }) {
  const of = useMemo(() => pieces(props.text, true), [props.text]);
  return (
    <span className={cx("literal", props.className)} dir="ltr" onCopy={copyExactly}>
      <Pieces of={of} />
    </span>
  );
}

// Prose shows text of several lines among others, exactly as it is, with pictures
// (emoji) as such: what people and agents say.
export function Prose(props: { text: string; className?: string }) {
  const of = useMemo(() => proseOf(props.text), [props.text]);
  return (
    <span className={cx("literal literal-prose", props.className)} onCopy={copyExactly}>
      <Pieces of={of} />
    </span>
  );
}

const pictures = /(\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?(?:\u200d\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?)*|[#*0-9]\ufe0f\u20e3)/u;

// proseOf returns text as pieces, with pictures (emoji) as such.
export function proseOf(text: string): Piece[] {
  return text.split(pictures).flatMap((t, i) => (i % 2 ? [t] : pieces(t)));
}

const noDangers: ReadonlyMap<number, string> = new Map();

// LiteralBlock shows the whole of a text, exactly as it is, with its lines
// numbered. A long one is in parts, one at a time; how many have been shown is
// reported to the ReadingContext around it.
export function LiteralBlock(props: {
  text: string;
  label: string;
  // What is dangerous, by its line.
  dangers?: ReadonlyMap<number, string>;
  tone?: "good" | "bad";
}) {
  const { parts, pieces: all, lines } = useMemo(() => partsOf(props.text), [props.text]);
  const warning = useMemo(() => note(all), [all]);
  return (
    <div className="space-y-1">
      {warning && (
        <p role="note" className="text-xs text-warn">
          {warning}
        </p>
      )}
      <InParts label={props.label} parts={parts} what={(part) => `lines ${rangeOf(part.lines)} of ${lines}`}>
        {(part) => (
          <pre
            tabIndex={0}
            role="group"
            dir="ltr"
            aria-label={props.label}
            onCopy={copyExactly}
            className={cx(
              "literal max-h-[60vh] min-h-8 overflow-auto rounded border bg-raised p-2 font-mono text-xs break-words whitespace-pre-wrap",
              props.tone === "good" && "text-good",
              props.tone === "bad" && "text-bad",
            )}
          >
            <Lines of={part.lines} numbered={lines > 1} dangers={props.dangers ?? noDangers} />
          </pre>
        )}
      </InParts>
    </div>
  );
}

const rangeOf = (lines: Line[]) => `${lines[0]?.number ?? 0} to ${lines.at(-1)?.number ?? 0}`;

function Lines(props: { of: Line[]; numbered: boolean; dangers: ReadonlyMap<number, string> }) {
  return props.of.map((l, i) => {
    const danger = props.dangers.get(l.number);
    return (
      <span
        key={i}
        className={cx("literal-line", danger && "bg-bad/10 text-bad")}
        data-number={props.numbered ? (l.continued ? "…" : l.number) : undefined}
        title={danger}
      >
        <Pieces of={l.pieces} />
      </span>
    );
  });
}

// InParts shows one part of a text at a time, and reports which have been shown.
export function InParts<P>(props: { label: string; parts: readonly P[]; what: (part: P) => string; children: (part: P) => ReactNode }) {
  const { parts } = props;
  const [at, setAt] = useState(0);
  const [seen, setSeen] = useState<ReadonlySet<number>>(new Set([0]));
  useEffect(() => {
    setAt(0);
    setSeen(new Set([0]));
  }, [parts]);
  const shown = Math.min(at, parts.length - 1);
  useProgress(props.label, Math.min(seen.size, parts.length), parts.length);
  const go = (to: number) => {
    setAt(to);
    setSeen((before) => new Set(before).add(to));
  };
  return (
    <>
      {props.children(parts[shown]!)}
      {parts.length > 1 && (
        <div role="group" aria-label={`Parts of ${props.label}`} className="flex flex-wrap items-center gap-2 text-xs text-dim">
          <Button small disabled={shown === 0} onClick={() => go(shown - 1)}>
            Previous part
          </Button>
          <Button small disabled={shown === parts.length - 1} onClick={() => go(shown + 1)}>
            Next part
          </Button>
          <span role="status">
            Part {shown + 1} of {parts.length}: {props.what(parts[shown]!)}. Shown so far: {seen.size} of {parts.length}.
          </span>
        </div>
      )}
    </>
  );
}
