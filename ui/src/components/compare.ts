import { diff } from "@codemirror/merge";
import type { DiffRow } from "./Diff";

// What differs is found in time that grows with the text, whatever is in it.
const config = { scanLimit: 500, timeout: 1_000 };

// compare returns the lines of two texts, with what differs between them. Line
// feeds are the only breaks: a carriage return is a character of its line.
export function compare(before: string, after: string): DiffRow[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  const rows: DiffRow[] = [];
  let [nextA, nextB] = [0, 0];
  const same = (until: number) => {
    while (nextA < until) rows.push({ sign: " ", before: nextA + 1, after: ++nextB, text: a[nextA++]! });
  };
  for (const change of changes(a, b)) {
    same(change.fromA);
    while (nextA < change.toA) rows.push({ sign: "-", before: nextA + 1, text: a[nextA++]! });
    while (nextB < change.toB) rows.push({ sign: "+", after: nextB + 1, text: b[nextB++]! });
  }
  same(a.length);
  // A line feed at the end is not a line, but it may differ.
  if (before && after && before.endsWith("\n") !== after.endsWith("\n")) {
    rows.push({ sign: "@", text: after.endsWith("\n") ? "The last line now ends with a line feed." : "The last line no longer ends with a line feed." });
  }
  return rows;
}

const linesOf = (text: string) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

type Range = { fromA: number; toA: number; fromB: number; toB: number };

// Code units that are characters by themselves.
const most = 0xd800;

// changes compares lines as a diff compares characters: each line that is
// different from all others is one.
function changes(a: string[], b: string[]): readonly Range[] {
  const codes = new Map<string, number>();
  const coded = (lines: string[]) => {
    const units = new Uint16Array(lines.length);
    for (const [i, line] of lines.entries()) {
      const known = codes.get(line) ?? codes.size;
      codes.set(line, known);
      units[i] = known;
    }
    return units;
  };
  const [unitsA, unitsB] = [coded(a), coded(b)];
  if (codes.size <= most) return diff(string(unitsA), string(unitsB), config);
  // Too many to tell apart: what is the same at both ends is left out.
  let [start, endA, endB] = [0, a.length, b.length];
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1];
  return start === endA && start === endB ? [] : [{ fromA: start, toA: endA, fromB: start, toB: endB }];
}

function string(units: Uint16Array): string {
  let out = "";
  for (let at = 0; at < units.length; at += 8_192) out += String.fromCharCode(...units.subarray(at, at + 8_192));
  return out;
}
