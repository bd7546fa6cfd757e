import { Link, useNavigate } from "@tanstack/react-router";
import { ZoomIn, ZoomOut } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { Skeletons } from "@/components/Skeleton";
import { final } from "@/components/state";
import { duration, millis, useNow } from "@/components/Time";
import type { Task } from "@/gen/deckhand/v1/task_pb";
import { useLive } from "@/live/context";
import type { TaskView } from "@/live/store";
import { rowsOf, thinned, waterfallOf, type LaneName } from "./waterfall";

const colours: Record<LaneName, string> = {
  Queue: "bg-dim", "Waiting for a person": "bg-warn", Waiting: "bg-warn/60", Paused: "bg-dim/60", Model: "bg-info", Tools: "bg-accent", Retries: "bg-bad", "Agent loop": "bg-dim/40",
};

const mostSubtasks = 50;

// How many bars beside each other can be told apart.
const distinct = 400;

// useWhole loads all of a task's events.
export function useWhole(task: Task, view: TaskView) {
  const { store } = useLive();
  const { whole, loadingOlder, version, state } = view;
  useEffect(() => {
    if (state === "ready" && !whole && !loadingOlder) void store.older(task.id);
  }, [store, task.id, state, whole, loadingOlder, version]);
  return whole;
}

// Timeline shows on one axis what a task's time went to: waiting, the model, tools
// beside each other, retries. A click on a call goes to its step.
export function Timeline(props: { task: Task; view: TaskView }) {
  const { task, view } = props;
  const whole = useWhole(task, view);
  const navigate = useNavigate();
  const now = useNow();
  const ended = final(task.state);
  const created = millis(task.createdAt) ?? 0;
  const end = ended ? (millis(task.finishedAt) ?? now) : now;
  const { version } = view;
  // The array of events is the same one, which grows.
  const all = useMemo(() => waterfallOf(view.events, created, end), [view.events, version, created, end]);
  const [zoom, setZoom] = useState({ from: 0, to: 1 });
  if (!whole) return <Skeletons rows={6} />;
  const span = Math.max(1, all.to - all.from);
  const [from, to] = [all.from + zoom.from * span, all.from + zoom.to * span];
  const width = Math.max(1, to - from);
  const scale = (factor: number) => {
    const [middle, half] = [(zoom.from + zoom.to) / 2, ((zoom.to - zoom.from) * factor) / 2];
    const size = Math.min(1, 2 * half);
    const begin = Math.max(0, Math.min(1 - size, middle - size / 2));
    setZoom({ from: begin, to: begin + size });
  };
  const shift = (by: number) => {
    const size = zoom.to - zoom.from;
    const begin = Math.max(0, Math.min(1 - size, zoom.from + by * size));
    setZoom({ from: begin, to: begin + size });
  };
  const go = (step: number) => void navigate({ to: "/tasks/$task", params: { task: task.id }, search: { tab: "steps", step } });
  return (
    <section aria-label="Timeline" className="space-y-3">
      <div className="flex flex-wrap items-center gap-2">
        <span className="flex-1 text-dim">
          {duration(span)} from its creation{ended ? " to its end" : " so far"}
        </span>
        <Button small disabled={zoom.from <= 0} onClick={() => shift(-0.5)}>Earlier</Button>
        <Button small disabled={zoom.to >= 1} onClick={() => shift(0.5)}>Later</Button>
        <Button small aria-label="Zoom in" onClick={() => scale(0.5)}><ZoomIn aria-hidden className="size-3.5" /></Button>
        <Button small aria-label="Zoom out" disabled={zoom.to - zoom.from >= 1} onClick={() => scale(2)}><ZoomOut aria-hidden className="size-3.5" /></Button>
        <Button small disabled={zoom.to - zoom.from >= 1} onClick={() => setZoom({ from: 0, to: 1 })}>All</Button>
      </div>
      <div className="overflow-x-auto rounded-md border bg-panel">
        <div className="min-w-[40rem]">
          <div className="grid grid-cols-[12rem_minmax(0,1fr)] border-b text-xs text-dim">
            <span className="px-3 py-1">Time since creation</span>
            <span className="relative h-6" aria-hidden>
              {[0, 0.25, 0.5, 0.75].map((at) => (
                <span key={at} className="absolute border-l pl-1" style={{ left: `${at * 100}%` }}>
                  {duration(from - all.from + at * width)}
                </span>
              ))}
            </span>
          </div>
          {all.lanes.map((lane) => (
            <div key={lane.name} role="group" aria-label={`${lane.name}: ${duration(lane.ms)}`} className="grid grid-cols-[12rem_minmax(0,1fr)] border-b last:border-0">
              <div className="px-3 py-1.5">
                {lane.name}
                <span className="block text-xs text-dim" data-ms={Math.round(lane.ms)}>
                  {duration(lane.ms)} · {Math.round((100 * lane.ms) / span)} %
                </span>
              </div>
              <div className="relative py-1.5" style={{ minHeight: "2.5rem" }}>
                {rowsOf(lane.bars).slice(0, 12).map((row, r) => (
                  <div key={r} className="relative h-4">
                    {thinned(row.filter((b) => b.to > from && b.from < to), width / distinct).map((bar, i) => {
                      const left = Math.max(0, (bar.from - from) / width);
                      const right = Math.min(1, (bar.to - from) / width);
                      const style = { left: `${left * 100}%`, width: `max(2px, ${(right - left) * 100}%)` };
                      const label = line(`${bar.label} · ${duration(bar.to - bar.from)}`);
                      const look = cx("absolute top-0.5 h-3 rounded-sm", bar.bad ? "bg-bad" : colours[lane.name]);
                      // Too small to be a target by itself: the steps are a list as well.
                      return <span key={i} aria-hidden title={label} className={cx(look, bar.step !== undefined && "cursor-pointer hover:brightness-75")} style={style} onClick={bar.step ? () => go(bar.step!) : undefined} />;
                    })}
                  </div>
                ))}
              </div>
            </div>
          ))}
          {all.subtasks.slice(0, mostSubtasks).map((s) => (
            <div key={s.taskId} role="group" aria-label={line(`Subtask ${s.label}: ${duration(s.to - s.from)}`)} className="grid grid-cols-[12rem_minmax(0,1fr)] border-b last:border-0">
              <div className="min-w-0 px-3 py-1.5">
                <Link to="/tasks/$task" params={{ task: s.taskId }} className="block min-h-6 truncate text-accent hover:underline" title={line(s.label)}>
                  <Literal text={s.label} />
                </Link>
                <span className="block text-xs text-dim">
                  {duration(s.to - s.from)}
                  {!s.ended && (ended ? " · end not known" : " so far")}
                </span>
              </div>
              <div className="relative self-center" style={{ height: "1rem" }}>
                {s.to > from && s.from < to && (
                  <span
                    aria-hidden
                    title={line(`${s.label} · ${duration(s.to - s.from)}`)}
                    className={cx("absolute top-0.5 h-3 rounded-sm", s.bad ? "bg-bad" : "bg-good/70", !s.ended && "opacity-60")}
                    style={{
                      left: `${Math.max(0, (s.from - from) / width) * 100}%`,
                      width: `max(2px, ${(Math.min(1, (s.to - from) / width) - Math.max(0, (s.from - from) / width)) * 100}%)`,
                    }}
                  />
                )}
              </div>
            </div>
          ))}
        </div>
      </div>
      {all.subtasks.length > mostSubtasks && <p className="text-xs text-dim">The first {mostSubtasks} of {all.subtasks.length} subtasks are shown. Details lists all of them.</p>}
    </section>
  );
}
