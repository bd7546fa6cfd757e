import { Check, Copy } from "lucide-react";
import { useEffect, useMemo, useState, type ReactNode } from "react";
import { Button } from "./Button";
import { cx } from "./cx";
import { languageOf, type Token } from "./languages";
import { copyExactly, InParts, Pieces } from "./Literal";
import { note, type Piece } from "./marks";
import { partsOf, type Line } from "./parts";

// The longest text that is highlighted, in characters.
const longest = 400_000;

const none: readonly Token[] = [];

// Code shows the whole of a text exactly as it is, with its lines numbered, in the
// colours of its language. The language is a name, or comes from a file's path; a
// text in none that is known is shown without colours, as is a text until its
// parser has loaded. A long one is in parts, as in LiteralBlock.
export function Code(props: {
  text: string;
  label: string;
  language?: string;
  path?: string;
  // On by default. A text of one line has no numbers.
  numbered?: boolean;
  // What is said of a line, or asked about it, by its number: shown below it.
  below?: (line: number) => ReactNode;
  // What is dangerous, by its line.
  dangers?: ReadonlyMap<number, string>;
  className?: string;
}) {
  const { text } = props;
  const language = useMemo(() => languageOf(props.language, props.path), [props.language, props.path]);
  const { parts, pieces, lines } = useMemo(() => partsOf(text), [text]);
  const starts = useMemo(() => startsOf(parts), [parts]);
  const warning = useMemo(() => note(pieces), [pieces]);
  const [tokens, setTokens] = useState<readonly Token[]>(none);
  useEffect(() => {
    setTokens(none);
    if (!language || text.length > longest) return;
    let gone = false;
    const load = async () => {
      const { tokensOf } = await import("./highlight");
      const found = await tokensOf(text, language);
      if (!gone) setTokens(found);
    };
    // Without colours it can be read as well.
    load().catch(() => undefined);
    return () => {
      gone = true;
    };
  }, [text, language]);
  const numbered = props.numbered !== false && lines > 1;
  return (
    <div className="space-y-1">
      {warning && (
        <p role="note" className="text-xs text-warn">
          {warning}
        </p>
      )}
      <InParts label={props.label} parts={parts} what={(part) => `lines ${part.lines[0]?.number ?? 0} to ${part.lines.at(-1)?.number ?? 0} of ${lines}`}>
        {(part) => (
          <div className="group relative">
            <pre
              tabIndex={0}
              role="group"
              dir="ltr"
              aria-label={props.label}
              onCopy={copyExactly}
              className={cx(
                "literal max-h-[60vh] min-h-8 overflow-auto rounded border bg-raised p-2 font-mono text-xs break-words whitespace-pre-wrap",
                props.className,
              )}
            >
              <Lines of={part.lines} from={starts.get(part) ?? 0} tokens={tokens} numbered={numbered} below={props.below} dangers={props.dangers} />
            </pre>
            <CopyButton text={text} />
          </div>
        )}
      </InParts>
    </div>
  );
}

function CopyButton(props: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <Button
      small
      aria-label={copied ? "Copied" : "Copy"}
      title="Copy"
      className="absolute top-1 right-1 opacity-0 group-hover:opacity-100 focus-visible:opacity-100"
      onClick={() => void navigator.clipboard.writeText(props.text).then(() => setCopied(true))}
      onBlur={() => setCopied(false)}
    >
      {copied ? <Check aria-hidden className="size-3.5" /> : <Copy aria-hidden className="size-3.5" />}
    </Button>
  );
}

const lengthOf = (p: Piece) => (typeof p === "string" ? p.length : p.original.length);

// startsOf returns where in the text each part begins.
function startsOf<P extends { lines: Line[] }>(parts: readonly P[]): Map<P, number> {
  const starts = new Map<P, number>();
  let at = 0;
  for (const part of parts) {
    starts.set(part, at);
    for (const l of part.lines) for (const p of l.pieces) at += lengthOf(p);
  }
  return starts;
}

function Lines(props: { of: Line[]; from: number; tokens: readonly Token[]; numbered: boolean; below?: (line: number) => ReactNode; dangers?: ReadonlyMap<number, string> }) {
  const { tokens } = props;
  let at = props.from;
  let next = firstAfter(tokens, at);
  const coloured = (piece: Piece, key: string): ReactNode => {
    const end = at + lengthOf(piece);
    if (typeof piece !== "string") {
      at = end;
      return <Pieces key={key} of={[piece]} />;
    }
    const out: ReactNode[] = [];
    const begin = at;
    while (at < end) {
      while (next < tokens.length && tokens[next]!.to <= at) next++;
      const token = tokens[next];
      const inside = token !== undefined && token.from <= at;
      const to = Math.min(end, token === undefined ? end : inside ? token.to : token.from);
      const text = <Pieces key={at} of={[piece.slice(at - begin, to - begin)]} />;
      out.push(
        inside ? (
          <span key={at} className={token.style}>
            {text}
          </span>
        ) : (
          text
        ),
      );
      at = to;
    }
    return out;
  };
  return props.of.map((l, i) => (
    <span key={i}>
      <span
        className={cx("literal-line", props.dangers?.has(l.number) && "bg-bad/10 text-bad")}
        title={props.dangers?.get(l.number)}
        data-number={props.numbered ? (l.continued ? "…" : l.number) : undefined}
      >
        {l.pieces.map((p, j) => coloured(p, `${i}.${j}`))}
      </span>
      {!l.continued && props.below?.(l.number)}
    </span>
  ));
}

// firstAfter returns the first token that ends after a place.
function firstAfter(tokens: readonly Token[], at: number): number {
  let [low, high] = [0, tokens.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tokens[middle]!.to <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}
