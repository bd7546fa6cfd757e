import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { useState, useSyncExternalStore } from "react";
import { useComfort } from "@/app/comfort";

// One clock for all relative times on the page.
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(fn: () => void): () => void {
  if (listeners.size === 0) {
    now = Date.now();
    timer = setInterval(() => {
      now = Date.now();
      for (const l of listeners) l();
    }, 5_000);
  }
  listeners.add(fn);
  return () => {
    listeners.delete(fn);
    if (listeners.size === 0) clearInterval(timer);
  };
}

// useNow returns the time. It is updated every five seconds.
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

// millis converts a timestamp to milliseconds since 1970; undefined for none.
export function millis(t: Timestamp | undefined): number | undefined {
  return t && Number(t.seconds) * 1000 + t.nanos / 1e6;
}

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const words = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });

// relative says how long ago, or in how long, for example "5 min ago".
export function relative(at: number, from: number): string {
  const seconds = (at - from) / 1000;
  for (const [unit, size] of units) {
    if (Math.abs(seconds) >= size) return words.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 5 ? "just now" : words.format(Math.trunc(seconds), "second");
}

// absolute is the time as a person reads it, with its zone.
export function absolute(at: number): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

// Time shows how long ago something was. The exact time is its title; a click or a tap
// shows it in place, and a setting shows it everywhere.
export function Time(props: { at: Timestamp | number | undefined; none?: string }) {
  const now = useNow();
  const { exactTimes } = useComfort();
  const [other, setOther] = useState(false);
  const exact = exactTimes !== other;
  const at = typeof props.at === "number" ? props.at : millis(props.at);
  if (at === undefined) return <span className="text-dim">{props.none ?? "never"}</span>;
  return (
    <time
      dateTime={new Date(at).toISOString()}
      title={absolute(at)}
      className={exact ? undefined : "whitespace-nowrap"}
      onClick={() => setOther(!other)}
    >
      {exact ? absolute(at) : relative(at, Math.max(now, at > now + 5000 ? now : at))}
    </time>
  );
}

// duration is a length of time, in milliseconds, for people: "1.2 s", "3 min 4 s".
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
