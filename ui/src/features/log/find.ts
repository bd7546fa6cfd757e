import { useCallback, useEffect, useRef, useState } from "react";
import type { RemoteLog } from "./remote";
import type { Query, Source } from "./source";

export type Match = { offset: number; length: number; excerpt: Uint8Array; excerptOffset: number; time?: number };

// How many matches are listed, how many are asked for at once, and how long a person
// types before the node searches, in milliseconds.
const mostListed = 2_000;
const page = 250;
const typing = 200;

// Finding is a search through a log on its node.
export type Finding = {
  matches: Match[];
  // All of the log was searched: there are no other matches.
  all: boolean;
  busy: boolean;
  // What part of the log was searched, from 0 to 1.
  share: number;
  // The search was stopped before its end.
  stopped: boolean;
  error: unknown;
  current: Match | undefined;
  // Where the current one is among the matches, from 0; -1 if it is beyond those
  // that are listed.
  place: number;
  go: (to: Match) => void;
  next: () => void;
  previous: () => void;
  stop: () => void;
  resume: () => void;
};

type Found = { matches: Match[]; all: boolean; busy: boolean; share: number; stopped: boolean; error: unknown };

const none: Found = { matches: [], all: true, busy: false, share: 1, stopped: false, error: undefined };

// Scan searches a log from its beginning to its end, part by part, and goes on as the log
// grows. What it has found is shown after each part.
class Scan {
  private found: Found = { ...none, all: false, busy: true, share: 0 };
  private running: AbortController | undefined;
  private at = 0;
  private end = 0;

  constructor(
    private readonly source: Source,
    private readonly query: Query,
    private readonly show: (found: Found) => void,
  ) {}

  // reach has the log searched up to an offset.
  reach(end: number) {
    this.end = Math.max(this.end, end);
    if (!this.running && !this.found.stopped && !this.found.error) void this.run();
  }

  // stop ends the search where it is; resume goes on.
  stop() {
    if (!this.found.busy) return;
    this.close();
    this.change({ stopped: true, busy: false });
  }

  resume() {
    this.change({ stopped: false, error: undefined });
    this.reach(this.end);
  }

  close() {
    this.running?.abort();
    this.running = undefined;
  }

  private change(by: Partial<Found>) {
    this.found = { ...this.found, ...by, share: this.end > 0 ? Math.min(1, this.at / this.end) : 1, all: this.at >= this.end };
    this.show(this.found);
  }

  private async run() {
    const abort = (this.running = new AbortController());
    const { signal } = abort;
    this.change({ busy: true });
    try {
      while (this.at < this.end && this.found.matches.length < mostListed) {
        const { end } = this;
        const res = await this.source.search(this.query, { offset: this.at, end, most: page }, signal);
        if (signal.aborted) return;
        this.at = res.complete ? end : Math.max(Number(res.nextOffset), this.at + 1);
        this.change({ matches: [...this.found.matches, ...matchesOf(res.matches)] });
      }
      this.change({ busy: false });
    } catch (error) {
      if (!signal.aborted) this.change({ busy: false, error });
    } finally {
      if (this.running === abort) this.running = undefined;
    }
  }
}

// useFind lists what matches a query, the first of them first, and goes from one to
// the next, also beyond those that are listed. An empty pattern finds nothing.
export function useFind(source: Source, log: RemoteLog, query: Query): Finding {
  const { pattern, regexp, ignoreCase } = query;
  const [found, setFound] = useState(none);
  const [current, setCurrent] = useState<Match>();
  const [stepping, setStepping] = useState<AbortController>();
  const scan = useRef<Scan>(undefined);
  const { end } = log;
  const reached = useRef(end);

  useEffect(() => {
    setCurrent(undefined);
    setStepping(undefined);
    setFound(pattern ? { ...none, all: false, busy: true, share: 0 } : none);
    if (!pattern) return;
    const timer = setTimeout(() => {
      scan.current = new Scan(source, { pattern, regexp, ignoreCase }, (f) => {
        setFound(f);
        setCurrent((c) => c ?? f.matches[0]);
      });
      scan.current.reach(reached.current);
    }, typing);
    return () => {
      clearTimeout(timer);
      scan.current?.close();
      scan.current = undefined;
    };
  }, [source, pattern, regexp, ignoreCase]);
  useEffect(() => {
    reached.current = end;
    scan.current?.reach(end);
  }, [end]);
  useEffect(() => () => stepping?.abort(), [stepping]);

  // step asks the node for one match before or after an offset, and else for the one
  // at the other end of the log.
  const step = useCallback(
    async (at: number, backwards: boolean) => {
      const abort = new AbortController();
      setStepping(abort);
      const q = { pattern, regexp, ignoreCase };
      const one = async (from: number) => {
        for (let offset = from; ; ) {
          const res = await source.search(q, backwards ? { end: offset, backwards, most: 1 } : { offset, most: 1 }, abort.signal);
          const match = matchesOf(res.matches).at(-1);
          if (match || res.complete) return match;
          offset = Number(res.nextOffset);
        }
      };
      try {
        // The end of nothing is the end of the log.
        const match = (backwards && at <= 0 ? undefined : await one(at)) ?? (await one(0));
        if (match) setCurrent(match);
      } catch (error) {
        if (!abort.signal.aborted) setFound((f) => ({ ...f, error }));
      }
      setStepping((s) => (s === abort ? undefined : s));
    },
    [source, pattern, regexp, ignoreCase],
  );

  const { matches, all } = found;
  const place = current ? matches.findIndex((m) => m.offset === current.offset) : -1;
  const next = useCallback(() => {
    if (!current) return;
    const after = matches.find((m) => m.offset > current.offset);
    if (after && place >= 0) setCurrent(after);
    else if (all) setCurrent(matches[0]);
    else void step(current.offset + Math.max(1, current.length), false);
  }, [current, matches, all, place, step]);
  const previous = useCallback(() => {
    if (!current) return;
    if (place > 0) setCurrent(matches[place - 1]);
    else if (all) setCurrent(matches.at(-1));
    else void step(current.offset, true);
  }, [current, matches, all, place, step]);
  const stop = useCallback(() => {
    stepping?.abort();
    scan.current?.stop();
  }, [stepping]);
  const resume = useCallback(() => scan.current?.resume(), []);
  return { ...found, busy: found.busy || stepping !== undefined, current, place, go: setCurrent, next, previous, stop, resume };
}

type Sent = { offset: bigint; length: bigint; excerpt: Uint8Array; excerptOffset: bigint; time?: { seconds: bigint; nanos: number } };

function matchesOf(sent: readonly Sent[]): Match[] {
  return sent.map((m) => ({
    offset: Number(m.offset),
    length: Number(m.length),
    excerpt: m.excerpt,
    excerptOffset: Number(m.excerptOffset),
    time: m.time && Number(m.time.seconds) * 1000 + m.time.nanos / 1e6,
  }));
}

// marker returns what of a row's text is marked as found; undefined where the node's
// expressions are others than the browser's.
export function marker(query: Query): RegExp | undefined {
  if (!query.pattern) return undefined;
  try {
    return new RegExp(query.regexp ? query.pattern : query.pattern.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), query.ignoreCase ? "gi" : "g");
  } catch {
    return undefined;
  }
}
