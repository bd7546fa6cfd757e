import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useDark } from "@/app/theme";
import { dollars } from "@/components/money";
import { day, tick } from "./series";

export type Line = { label: string; values: (number | null)[]; colour: string; dash?: number[] };

const hour = 3600;

// increments are between two ticks: whole days for days, hours for hours.
const increments = (step: number) => (step < day ? [1, 2, 3, 6, 12].map((n) => n * hour) : [1, 2, 5, 10, 15].map((n) => n * day));

// Bars draws stacked bars, or lines alone, over time; values are dollars.
export function Bars(props: {
  label: string;
  // Seconds since 1970, ascending.
  times: number[];
  parts: { name: string; values: number[]; colour: string }[];
  lines: Line[];
  // Is told the index of a time that was clicked.
  onPick?: (at: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const pick = useRef(props.onPick);
  pick.current = props.onPick;
  const dark = useDark();
  const { times, parts, lines } = props;
  useEffect(() => {
    const el = box.current;
    if (!el || times.length === 0) return undefined;
    const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "gray";
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
    // The tallest stack is drawn first, the lower ones over it.
    const stacks: { name: string; values: number[]; colour: string }[] = [];
    parts.forEach((p, i) => {
      const below = stacks[i - 1]?.values;
      stacks.push({ ...p, values: p.values.map((v, n) => v + (below?.[n] ?? 0)) });
    });
    stacks.reverse();
    const step = times.length > 1 ? times[1]! - times[0]! : day;
    const bars = uPlot.paths.bars!({ size: [0.8, 40], align: 0 });
    const resolve = (c: string) => (c.startsWith("--") ? colour(c) : c);
    const size = () => ({ width: Math.max(el.clientWidth, 160), height: 200 });
    const made = new uPlot(
      {
        ...size(),
        legend: { show: false },
        cursor: { y: false, points: { show: false } },
        // A bar at the edge is as wide as the others.
        scales: { x: { time: true, range: (_, min, max) => (parts.length > 0 ? [min - step / 2, max + step / 2] : [min, max]) }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "UTC"),
        axes: [{ ...axis, size: 28, space: 70, incrs: increments(step), values: (_, ticks) => ticks.map((t) => tick(t, step)) }, { ...axis, size: 58, space: 28, values: (_, ticks) => ticks.map((t) => dollars(t * 1e6)) }],
        series: [
          {},
          ...stacks.map((s) => ({ label: s.name, fill: resolve(s.colour), stroke: resolve(s.colour), width: 0, paths: bars, points: { show: false } })),
          ...lines.map((l) => ({ label: l.label, stroke: resolve(l.colour), width: 2, dash: l.dash, points: { show: false }, spanGaps: false })),
        ],
        hooks: {
          ready: [(u) => u.over.addEventListener("click", () => u.cursor.idx != null && pick.current?.(u.cursor.idx))],
        },
      },
      [times, ...stacks.map((s) => s.values), ...lines.map((l) => l.values)] as uPlot.AlignedData,
      el,
    );
    const observer = new ResizeObserver(() => made.setSize(size()));
    observer.observe(el);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [dark, times, parts, lines]);
  return <div ref={box} role="img" aria-label={props.label} className="min-h-[200px] min-w-0" />;
}
