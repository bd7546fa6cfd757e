/**
 * Backoff computes the waits between tries: they double, and each is random between a tenth
 * of its bound and the bound, so that many clients that lost the same hub do not return in
 * waves.
 */
export class Backoff {
  private failures = 0;

  constructor(
    // The bound of the first wait, and of all, in milliseconds.
    private readonly base = 200,
    private readonly max = 10_000,
  ) {}

  /** next returns the wait after another failure, in milliseconds. */
  next(): number {
    const bound = Math.min(this.base * 2 ** this.failures, this.max);
    if (bound < this.max) this.failures++;
    return bound / 10 + Math.random() * bound * 0.9;
  }

  /** reset says that a try went well. */
  reset() {
    this.failures = 0;
  }
}

/**
 * sleep waits, in milliseconds, until the time is over, the signal is aborted or, in a
 * browser, the machine has a network again.
 */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      globalThis.removeEventListener?.("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    globalThis.addEventListener?.("online", done);
  });
}
