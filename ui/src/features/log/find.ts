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
  error: unknown;
  current: Match | undefined;
  // Where the current one is among the matches, from 0; -1 if it is beyond those
  // that are listed.
  place: number;
  go: (to: Match) => void;
  next: () => void;
  previous: () => void;
};

type Found = { matches: Match[]; all: boolean; busy: boolean; error: unknown; next: number };

const none: Found = { matches: [], all: true, busy: false, error: undefined, next: 0 };

// useFind lists what matches a query, the first of them first, and goes from one to
// the next, also beyond those that are listed. An empty pattern finds nothing.
export function useFind(source: Source, log: RemoteLog, query: Query): Finding {
  const { pattern, regexp, ignoreCase } = query;
  const [found, setFound] = useState(none);
  const [current, setCurrent] = useState<Match>();
  const stepping = useRef<AbortController>(undefined);
  const { end } = log;

  // A search goes on where the one before stopped, when the log has grown.
  const searched = useRef<{ key: string; found: Found }>({ key: "", found: none });
  useEffect(() => {
    const key = JSON.stringify([pattern, regexp, ignoreCase]);
    if (searched.current.key !== key) {
      searched.current = { key, found: { ...none, all: false } };
      setCurrent(undefined);
      setFound(pattern ? { ...none, all: false, busy: true } : none);
    }
    if (!pattern) return;
    const abort = new AbortController();
    const search = async () => {
      let at = searched.current.found;
      while (at.next < end && at.matches.length < mostListed) {
        const res = await source.search({ pattern, regexp, ignoreCase }, { offset: at.next, end, most: page }, abort.signal);
        const more = matchesOf(res.matches);
        const next = Math.max(Number(res.nextOffset), at.next + (res.complete ? 0 : 1));
        at = { matches: [...at.matches, ...more], all: res.complete, busy: !res.complete, error: undefined, next: res.complete ? end : next };
        searched.current.found = at;
        setFound(at);
        setCurrent((c) => c ?? at.matches[0]);
        if (res.complete) break;
      }
      setFound({ ...at, busy: false, all: at.next >= end });
    };
    const timer = setTimeout(
      () =>
        void search().catch((error: unknown) => {
          if (!abort.signal.aborted) setFound((f) => ({ ...f, busy: false, error }));
        }),
      typing,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [source, pattern, regexp, ignoreCase, end]);

  // step asks the node for one match before or after an offset, and else for the one
  // at the other end of the log.
  const step = useCallback(
    async (at: number, backwards: boolean) => {
      stepping.current?.abort();
      const abort = (stepping.current = new AbortController());
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
  return { matches, all, busy: found.busy, error: found.error, current, place, go: setCurrent, next, previous };
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
