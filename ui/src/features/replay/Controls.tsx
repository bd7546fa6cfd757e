import { ChevronFirst, ChevronLast, ChevronLeft, ChevronRight, Pause, Play } from "lucide-react";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Select } from "@/components/Field";
import { useShortcut } from "@/components/shortcuts";
import { absolute, duration } from "@/components/Time";
import { marksOf, type History, type MarkKind } from "./history";
import { advance, speeds } from "./play";

const parts = 240;
const markLooks: Record<MarkKind, string> = {
  step: "h-1 bg-line",
  change: "h-2 bg-accent",
  message: "h-3 bg-info",
  question: "h-3 bg-warn",
  problem: "h-3 bg-bad",
};
const markWords: [MarkKind, string][] = [["change", "changed files"], ["message", "message"], ["question", "question"], ["problem", "failure"]];

// Controls move a run: a slider over all of it, the keys, and playing it.
export function Controls(props: {
  history: History;
  place: { at: number; clock: number };
  onSeek: (at: number) => void;
  onPlay: (place: { at: number; clock: number }) => void;
  loading: boolean;
}) {
  const { history, place, onSeek } = props;
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState<number>(10);
  const [skip, setSkip] = useState(true);
  const now = useRef(props);
  now.current = props;
  useEffect(() => {
    if (!playing) return undefined;
    let frame = 0;
    let before = performance.now();
    const tick = (time: number) => {
      const { history, place, onPlay } = now.current;
      const to = advance(history.times, place, time - before, speed, skip);
      before = time;
      onPlay({ at: to.at, clock: to.clock });
      if (to.ended) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, skip]);
  const seek = (to: number) => {
    setPlaying(false);
    onSeek(to);
  };
  const start = () => {
    if (!playing && place.at >= history.length - 1) onSeek(0);
    setPlaying(!playing);
  };
  useShortcut("ArrowRight", "Next step", "Replay", (e) => seek(e.shiftKey ? history.turn(place.at, 1) : history.step(place.at, 1)));
  useShortcut("ArrowLeft", "Previous step", "Replay", (e) => seek(e.shiftKey ? history.turn(place.at, -1) : history.step(place.at, -1)));
  useShortcut("Home", "Beginning of the run", "Replay", () => seek(0));
  useShortcut("End", "End of the run", "Replay", () => seek(history.length - 1));
  useShortcut("p", "Play or pause", "Replay", start);
  const first = history.times[0] ?? 0;
  const said = `Step ${history.at(place.at).stepNumber}, ${duration(Math.max(0, place.clock - first))} into the run`;
  return (
    <div role="group" aria-label="Replay controls" className="space-y-1 px-5 pb-2">
      <div className="relative pt-4">
        <Marks history={history} />
        <input
          type="range"
          aria-label="Position in the run"
          aria-valuetext={said}
          min={0}
          max={Math.max(0, history.length - 1)}
          value={place.at}
          disabled={history.partial}
          onChange={(e) => seek(Number(e.target.value))}
          onKeyDown={(e) => {
            // By steps here as everywhere on the page, not by single events.
            const by = e.key === "ArrowRight" || e.key === "ArrowUp" ? 1 : e.key === "ArrowLeft" || e.key === "ArrowDown" ? -1 : undefined;
            if (!by) return;
            e.preventDefault();
            seek(e.shiftKey ? history.turn(place.at, by) : history.step(place.at, by));
          }}
          className="block h-6 w-full accent-accent"
        />
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <Button small aria-label="Beginning of the run" onClick={() => seek(0)}><ChevronFirst aria-hidden className="size-4" /></Button>
        <Button small aria-label="Previous step" title="Left arrow; with Shift the previous turn" onClick={() => seek(history.step(place.at, -1))}>
          <ChevronLeft aria-hidden className="size-4" />
        </Button>
        <Button small look="primary" disabled={history.partial} onClick={start}>
          {playing ? <Pause aria-hidden className="size-4" /> : <Play aria-hidden className="size-4" />}
          {playing ? "Pause" : "Play"}
        </Button>
        <Button small aria-label="Next step" title="Right arrow; with Shift the next turn" onClick={() => seek(history.step(place.at, 1))}>
          <ChevronRight aria-hidden className="size-4" />
        </Button>
        <Button small aria-label="End of the run" onClick={() => seek(history.length - 1)}><ChevronLast aria-hidden className="size-4" /></Button>
        <Select aria-label="Speed" value={speed} onChange={(e) => setSpeed(Number(e.target.value))}>
          {speeds.map((s) => <option key={s} value={s}>{s} ×</option>)}
        </Select>
        <label className="flex items-center gap-1.5 text-xs">
          <input type="checkbox" className="size-4 accent-accent" checked={skip} onChange={(e) => setSkip(e.target.checked)} />
          Skip waiting
        </label>
        <span data-testid="position" className="font-mono text-xs">
          {said} · <time dateTime={new Date(place.clock).toISOString()}>{absolute(place.clock)}</time>
        </span>
        <span className="flex-1" />
        <span className="flex flex-wrap gap-3 text-xs text-dim">
          {props.loading && <span role="status">Loading the rest…</span>}
          {markWords.map(([kind, word]) => (
            <span key={kind} className="flex items-center gap-1">
              <span aria-hidden className={cx("w-1", markLooks[kind])} /> {word}
            </span>
          ))}
        </span>
      </div>
    </div>
  );
}

// Marks are above the slider, along the way of its thumb.
const Marks = memo(function Marks({ history }: { history: History }) {
  const marks = useMemo(() => marksOf(history, parts), [history]);
  const last = Math.max(1, history.length - 1);
  return (
    <div aria-hidden className="absolute inset-x-2 top-0 h-4">
      {marks.map((m) => (
        <span key={m.at} className={cx("absolute bottom-0 w-0.5", markLooks[m.kind])} style={{ left: `${(m.at / last) * 100}%` }} />
      ))}
    </div>
  );
});
