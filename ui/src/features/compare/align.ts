import type { Step } from "@/gen/deckhand/v1/step_pb";

// Pair is a step of each of two runs that stand beside each other; one of them may be
// missing.
export type Pair = { a?: Step; b?: Step; same: boolean };

// What is compared of a step: the call, not what became of it.
const callOf = (s: Step) => `${s.tool} ${JSON.stringify(sorted(s.arguments))}`;

function sorted(v: unknown): unknown {
  if (Array.isArray(v)) return v.map(sorted);
  if (v === null || typeof v !== "object") return v;
  return Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, x]) => [k, sorted(x)]));
}

// Beyond this many cells steps are paired by their numbers.
const mostCells = 4_000_000;

// align pairs the steps of two runs: as many equal calls as possible stand beside each
// other, in both orders. parted is the index of the first pair whose calls differ, or the
// number of pairs where none does.
export function align(a: readonly Step[], b: readonly Step[]): { pairs: Pair[]; parted: number } {
  const [x, y] = [a.map(callOf), b.map(callOf)];
  let begin = 0;
  while (begin < x.length && begin < y.length && x[begin] === y[begin]) begin++;
  const pairs: Pair[] = a.slice(0, begin).map((step, i) => ({ a: step, b: b[i], same: true }));
  const parted = pairs.length;
  const [n, m] = [x.length - begin, y.length - begin];
  if (n * m > mostCells) {
    for (let i = begin; i < Math.max(x.length, y.length); i++) pairs.push({ a: a[i], b: b[i], same: i < x.length && x[i] === y[i] });
    return { pairs, parted };
  }
  // The longest common subsequence of what is left.
  const longest = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      longest[i]![j] = x[begin + i] === y[begin + j] ? longest[i + 1]![j + 1]! + 1 : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!);
    }
  }
  let [i, j] = [0, 0];
  // Calls that differ between two equal ones stand beside each other.
  let waiting: { a: Step[]; b: Step[] } = { a: [], b: [] };
  const flush = () => {
    for (let k = 0; k < Math.max(waiting.a.length, waiting.b.length); k++) pairs.push({ a: waiting.a[k], b: waiting.b[k], same: false });
    waiting = { a: [], b: [] };
  };
  while (i < n || j < m) {
    if (i < n && j < m && x[begin + i] === y[begin + j]) {
      flush();
      pairs.push({ a: a[begin + i++], b: b[begin + j++], same: true });
    } else if (j >= m || (i < n && longest[i + 1]![j]! >= longest[i]![j + 1]!)) waiting.a.push(a[begin + i++]!);
    else waiting.b.push(b[begin + j++]!);
  }
  flush();
  return { pairs, parted };
}
