import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useDark } from "@/app/theme";

// Chart draws one figure over time and says its last value. times are seconds
// since 1970, ascending; a value that is not known is null and leaves a gap.
export function Chart(props: {
  label: string;
  times: number[];
  values: (number | null)[];
  format: (value: number) => string;
  // What there is at most, where that is known: a line of its own.
  limit?: number;
  // The times are days, in UTC.
  days?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const format = useRef(props.format);
  format.current = props.format;
  const dark = useDark();
  const { times, values, limit, label, days } = props;
  useEffect(() => {
    const el = box.current;
    if (!el) return undefined;
    const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "gray";
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
    const made = new uPlot(
      {
        width: Math.max(el.clientWidth, 120),
        height: 130,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 } },
        scales: { x: { time: true }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [
          { ...axis, size: 24, space: 80, values: (_, ticks) => ticks.map((t) => days ? new Date(t * 1000).toISOString().slice(5, 10) : new Date(t * 1000).toLocaleTimeString([], { hourCycle: "h23" })) },
          { ...axis, size: 58, space: 28, values: (_, ticks) => ticks.map((t) => format.current(t)) },
        ],
        series: [
          {},
          { label, stroke: colour("--accent"), width: 1.5, points: { show: false } },
          { label: "limit", stroke: colour("--warn"), width: 1, dash: [4, 4], points: { show: false } },
        ],
      },
      [[], [], []],
      el,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: Math.max(el.clientWidth, 120), height: 130 }));
    observer.observe(el);
    return () => {
      observer.disconnect();
      plot.current = undefined;
      made.destroy();
    };
  }, [dark, label, days]);
  useEffect(() => {
    plot.current?.setData([times, values, times.map(() => limit ?? null)]);
  }, [times, values, limit, dark, label]);
  const last = values.at(-1);
  const now = last === null || last === undefined ? "not known" : props.format(last);
  return (
    <figure className="min-w-0 rounded-lg border bg-panel p-3">
      <figcaption className="flex items-baseline justify-between gap-2 pb-1">
        <span className="text-sm font-medium">{label}</span>
        <span className="font-mono text-xs">
          {now}
          {limit !== undefined && <span className="text-dim"> of {props.format(limit)}</span>}
        </span>
      </figcaption>
      <div ref={box} role="img" aria-label={`${label} over ${days ? "days" : "the last minutes"}; ${days ? "last" : "now"} ${now}`} />
    </figure>
  );
}
