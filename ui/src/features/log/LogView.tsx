import { ArrowDown, ArrowDownToLine, ArrowUp, CaseSensitive, Clock, Download, ListFilter, Regex, Search, WrapText } from "lucide-react";
import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { download } from "@/components/download";
import { Input } from "@/components/Field";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { runsOf } from "./ansi";
import { marker, useFind, type Match } from "./find";
import { RemoteLog } from "./remote";
import type { Row } from "./rows";
import { lineHeight, useScroll } from "./scroll";
import type { Source } from "./source";

// The search makes of many bytes in memory one file on the disk.
const part = 16 * 1024 * 1024;

// LogView shows the output of a command. It reads the parts that are looked at from
// the node that ran it: a log of gigabytes opens at its end at once. It can be
// searched, followed, wrapped and downloaded. Scrolling up stops following.
export function LogView(props: {
  source: Source;
  name: string;
  className?: string;
  label: string;
  // The line to begin at, and where a line's number leads.
  line?: number;
  // What is looked for at first.
  find?: string;
  linkTo?: (line: number) => string;
}) {
  const { source } = props;
  const log = useMemo(() => new RemoteLog(source), [source]);
  useEffect(() => {
    log.start();
    return () => log.stop();
  }, [log]);
  useSyncExternalStore(log.subscribe, () => log.version);
  const [follow, setFollow] = useState(props.line === undefined && !props.find);
  const [wrap, setWrap] = useState(false);
  const [times, setTimes] = useState(false);
  const [only, setOnly] = useState(false);
  const [query, setQuery] = useState({ pattern: props.find ?? "", regexp: false, ignoreCase: true });
  const found = useFind(source, log, query);
  const marked = useMemo(() => marker(query), [query]);
  const box = useRef<HTMLDivElement>(null);
  const listed = only && query.pattern !== "";
  const slow = useSlow(found.busy);
  const rows = listed ? found.matches.length : log.size;
  const { view, top, most, spacer, goTo, onScroll } = useScroll(box, rows);

  // What is to be shown may have to be loaded first: each change of the log looks
  // again.
  const [target, setTarget] = useState<{ line?: number; offset?: number } | undefined>(props.line === undefined ? undefined : { line: props.line });
  const [chosen, setChosen] = useState<number>();
  useEffect(() => {
    if (props.line !== undefined) {
      setFollow(false);
      setTarget({ line: props.line });
    }
  }, [props.line]);
  const { current } = found;
  useEffect(() => {
    if (!current || listed) return;
    setFollow(false);
    setTarget({ offset: current.offset });
  }, [current, listed]);
  const { version } = log;
  useEffect(() => {
    if (!target || listed || view === 0) return;
    const row = target.line !== undefined ? log.rowOf(target.line) : log.rowAt(target.offset!);
    if (row === undefined) return;
    setTarget(undefined);
    if (row < 0) return;
    setChosen(row);
    goTo((row + 0.5) * lineHeight - view / 2);
  }, [target, listed, view, version, log, goTo]);
  useLayoutEffect(() => {
    if (follow && !listed) goTo(most);
  }, [follow, listed, most, goTo]);

  const first = Math.min(Math.floor(top / lineHeight), Math.max(0, rows - 1));
  const past = top / lineHeight - first;
  const atEnd = top >= most && most > 0;
  const shown: ReactNode[] = [];
  const amount = Math.ceil(view / lineHeight) + 1;
  const from = wrap && atEnd ? Math.max(0, rows - amount) : first;
  // While the rows of a long log are counted, its end is there already.
  const tail = !log.counted && follow && !listed ? log.tail : undefined;
  for (let i = Math.max(0, (tail?.size ?? 0) - amount); tail && i < tail.size; i++) {
    shown.push(<Line key={i - tail.size} row={tail.row(i)} wrap={wrap} times={times} marked={marked} current={false} link={undefined} pick={undefined} />);
  }
  for (let i = from; !tail && i < Math.min(rows, from + amount); i++) {
    const match = listed ? found.matches[i] : undefined;
    const row = match ? rowOf(match, log) : log.row(i);
    const is = match ? match.offset === current?.offset : i === chosen;
    shown.push(<Line key={i} row={row} wrap={wrap} times={times} marked={marked} current={is} link={props.linkTo} pick={match && (() => (setOnly(false), found.go(match), setTarget({ offset: match.offset })))} />);
  }
  const window_ = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const el = window_.current;
    if (!el) return;
    const height = wrap ? (el.firstElementChild?.getBoundingClientRect().height ?? lineHeight) : lineHeight;
    el.style.transform = `translateY(${tail || (wrap && atEnd) ? Math.min(0, view - el.getBoundingClientRect().height) : -past * height}px)`;
  });

  const find = (
    <>
      <div className="relative min-w-32 flex-1">
        <Search aria-hidden className="pointer-events-none absolute top-2 left-2 size-3.5 text-dim" />
        <Input
          aria-label="Find in the output"
          placeholder="Find"
          className="min-h-7 pl-7 text-xs"
          value={query.pattern}
          onChange={(e) => setQuery({ ...query, pattern: e.target.value })}
          onKeyDown={(e) => {
            if (e.key === "Enter") (e.shiftKey ? found.previous : found.next)();
            if (e.key === "Escape" && found.busy) {
              e.stopPropagation();
              found.stop();
            }
          }}
        />
      </div>
      <Toggle on={query.regexp} label="Regular expression" set={(regexp) => setQuery({ ...query, regexp })} icon={Regex} />
      <Toggle on={!query.ignoreCase} label="Match case" set={(exact) => setQuery({ ...query, ignoreCase: !exact })} icon={CaseSensitive} />
      <Toggle on={only} label="Only matches" set={setOnly} icon={ListFilter} />
      {query.pattern && (
        <>
          <Button small look="quiet" aria-label="Previous match" title="Previous match (Shift+Enter)" onClick={found.previous}>
            <ArrowUp aria-hidden className="size-3.5" />
          </Button>
          <Button small look="quiet" aria-label="Next match" title="Next match (Enter)" onClick={found.next}>
            <ArrowDown aria-hidden className="size-3.5" />
          </Button>
          {slow && (
            <Button small look="quiet" onClick={found.stop}>
              Stop search
            </Button>
          )}
          {(found.stopped || found.error !== undefined) && (
            <Button small look="quiet" onClick={found.resume}>
              Continue search
            </Button>
          )}
        </>
      )}
    </>
  );
  return (
    <section aria-label={props.label} className={cx("flex min-h-0 flex-col rounded-md border bg-panel", props.className)}>
      <div className="flex flex-wrap items-center gap-1 border-b p-1">
        {find}
        <span role="status" className="px-1 text-xs text-dim">
          {query.pattern ? placeOf(found) : !log.counted && log.end > 0 ? `${bytes(log.end)}, counting lines: ${Math.floor((100 * log.offset) / log.end)} %` : `${log.size > 0 ? `${count(log.lines)} ${log.lines === 1 ? "line" : "lines"}, ` : ""}${bytes(log.end)}${log.ended ? "" : ", running"}`}
        </span>
        <Toggle on={times} label="Times" set={setTimes} icon={Clock} />
        <Toggle on={wrap} label="Wrap lines" set={setWrap} icon={WrapText} />
        <Toggle on={follow} label="Follow the end" set={setFollow} icon={ArrowDownToLine} />
        <Save source={source} name={props.name} end={log.end} />
      </div>
      {(log.error ?? found.error) !== undefined && <Problem error={log.error ?? found.error} />}
      <div
        ref={box}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={props.label}
        onWheel={(e) => e.deltaY < 0 && setFollow(false)}
        onTouchMove={() => setFollow(false)}
        onKeyDown={(e) => {
          if (e.target !== e.currentTarget) return;
          if (["PageUp", "ArrowUp", "Home"].includes(e.key)) setFollow(false);
          if (e.key === "Home") goTo(0);
          else if (e.key === "End") goTo(most);
          else return;
          e.preventDefault();
        }}
        onScroll={() => onScroll() && top < most - 400 && setFollow(false)}
        className="min-h-0 flex-1 overflow-auto font-mono text-xs"
        style={{ overflowAnchor: "none" }}
      >
        {rows === 0 ? (
          <p className="p-2 text-dim">{listed ? (found.busy ? "Searching…" : "No line matches.") : log.ended ? "No output." : log.counted ? "No output yet." : "Loading…"}</p>
        ) : (
          <div style={{ height: Math.max(spacer, 1) }} className={wrap ? "w-full" : "w-max min-w-full"}>
            <div className="sticky top-0" style={{ height: Math.min(view, spacer), overflowY: "clip" }}>
              <div ref={window_}>{shown}</div>
            </div>
          </div>
        )}
      </div>
    </section>
  );
}

// useSlow reports whether something has lasted so long that a person wants to stop it.
function useSlow(busy: boolean): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (!busy) return;
    const timer = setTimeout(() => setSlow(true), 800);
    return () => {
      clearTimeout(timer);
      setSlow(false);
    };
  }, [busy]);
  return slow;
}

const count = (n: number) => n.toLocaleString("en");

// placeOf says which of the matches is the current one.
function placeOf(found: ReturnType<typeof useFind>): string {
  const searched = found.share < 1 && (found.busy || found.stopped) ? `${Math.floor(100 * found.share)} % searched` : "";
  if (found.busy && found.matches.length === 0) return searched ? `Searching… ${searched}` : "Searching…";
  const of = `${count(found.matches.length)}${found.all ? "" : "+"}`;
  const place = `${found.place >= 0 ? count(found.place + 1) : found.current ? "…" : 0} of ${of}`;
  return searched ? `${place} · ${searched}` : place;
}

// rowOf returns the line of a match as a row.
function rowOf(match: Match, log: RemoteLog): Row {
  return {
    offset: match.excerptOffset,
    number: log.lineAt(match.offset) ?? 0,
    text: new TextDecoder().decode(match.excerpt).replace(/\n$/, ""),
    colours: "",
    time: match.time,
  };
}

function Toggle(props: { on: boolean; label: string; set: (on: boolean) => void; icon: typeof Clock }) {
  const Icon = props.icon;
  return (
    <Button small look={props.on ? "plain" : "quiet"} aria-pressed={props.on} aria-label={props.label} title={props.label} onClick={() => props.set(!props.on)}>
      <Icon aria-hidden className="size-3.5" />
    </Button>
  );
}

// Save downloads all of the output from the node, part by part.
function Save(props: { source: Source; name: string; end: number }) {
  const [done, setDone] = useState<number>();
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const save = useCallback(async () => {
    const abort = (running.current = new AbortController());
    let whole = new Blob([]);
    let parts: Uint8Array[] = [];
    let [held, at] = [0, 0];
    const keep = () => {
      whole = new Blob([whole, ...(parts as BlobPart[])]);
      [parts, held] = [[], 0];
    };
    setDone(0);
    try {
      for await (const p of props.source.read(0, 0, abort.signal)) {
        parts.push(p.data);
        held += p.data.length;
        at = p.offset + p.data.length;
        if (held >= part) {
          keep();
          setDone(at);
        }
      }
      keep();
      download(props.name, new Blob([whole], { type: "application/octet-stream" }));
    } catch (e) {
      if (!abort.signal.aborted) showError(e);
    } finally {
      setDone(undefined);
    }
  }, [props.source, props.name]);
  if (done !== undefined) {
    return (
      <Button small look="quiet" onClick={() => running.current?.abort()}>
        {Math.floor((100 * done) / Math.max(1, props.end))} % · Cancel
      </Button>
    );
  }
  return (
    <Button small look="quiet" aria-label="Download log" title="Download log" onClick={() => void save()}>
      <Download aria-hidden className="size-3.5" />
    </Button>
  );
}

const clock = (ms: number) => {
  const at = new Date(ms);
  return `${at.toLocaleTimeString([], { hour12: false })}.${String(at.getMilliseconds()).padStart(3, "0")}`;
};

// Line is a row of the output.
const Line = memo(function Line(props: {
  row: Row | undefined;
  wrap: boolean;
  times: boolean;
  marked: RegExp | undefined;
  current: boolean;
  link: ((line: number) => string) | undefined;
  pick: (() => void) | undefined;
}) {
  const { row, wrap, marked, link } = props;
  const runs = useMemo(() => (row ? runsOf(row.text, row.colours) : []), [row]);
  const number = row?.number || "";
  return (
    <div
      className={cx("flex leading-[18px]", wrap ? "min-h-[18px]" : "h-[18px] whitespace-pre", props.current && "bg-raised")}
      onDoubleClick={props.pick}
    >
      <span className="min-w-12 shrink-0 pr-2 text-right text-dim tabular-nums select-none">
        {props.pick ? (
          <button type="button" aria-label={`Show line ${number} in the log`} className="hover:underline" onClick={props.pick}>
            {number || "›"}
          </button>
        ) : link && number ? (
          <a href={link(number)} tabIndex={-1} aria-label={`Link to line ${number}`} className="hover:underline">
            {number}
          </a>
        ) : (
          <span aria-hidden>{number}</span>
        )}
      </span>
      {props.times && <span className="shrink-0 pr-2 text-dim tabular-nums select-none">{row?.time === undefined ? "" : clock(row.time)}</span>}
      <span className={wrap ? "min-w-0 break-all whitespace-pre-wrap" : undefined}>
        {runs.map((run, i) => (
          <span key={i} className={run.className || undefined} style={run.colour ? { color: run.colour } : undefined}>
            {found(run.text, marked)}
          </span>
        ))}
      </span>
    </div>
  );
});

// found returns a text with what was searched for marked.
function found(text: string, marked: RegExp | undefined): ReactNode {
  if (!marked) return text;
  const out: ReactNode[] = [];
  let at = 0;
  for (const m of text.matchAll(marked)) {
    if (!m[0]) break;
    out.push(text.slice(at, m.index), <mark key={m.index}>{m[0]}</mark>);
    at = m.index + m[0].length;
  }
  return at === 0 ? text : [...out, text.slice(at)];
}
