// speeds are how many times faster than it was a run is played.
export const speeds = [1, 2, 5, 10, 20, 50, 100] as const;

// Waits that are longer than this are cut to it, in milliseconds of the run, where waiting
// is skipped.
export const longestWait = 2_000;

// advance returns the clock of a run after so much time of the viewer, in milliseconds,
// and the position that it has come to. times are those of the moments, ascending.
export function advance(
  times: ArrayLike<number>,
  from: { at: number; clock: number },
  passed: number,
  speed: number,
  skip: boolean,
): { at: number; clock: number; ended: boolean } {
  let { at, clock } = from;
  let left = passed * speed;
  while (at + 1 < times.length) {
    const next = times[at + 1]!;
    if (skip && next - clock > longestWait) clock = next - longestWait;
    if (next - clock > left) return { at, clock: clock + left, ended: false };
    left -= Math.max(0, next - clock);
    clock = Math.max(clock, next);
    at++;
  }
  return { at, clock, ended: true };
}

// countUntil returns how many of what is ascending in time had come by a time.
export function countUntil(all: readonly { time: number }[], clock: number): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle]!.time <= clock) low = middle + 1;
    else high = middle;
  }
  return low;
}
