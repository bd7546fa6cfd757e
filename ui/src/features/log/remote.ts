import { DeckhandError } from "@deckhand/sdk";
import { joined, lastAt, Rows, type Row } from "./rows";
import type { Piece, Source } from "./source";

// Mark is where a row begins, after how many rows and line feeds.
type Mark = { offset: number; rows: number; lines: number; continued: boolean };

type Block = { rows: Rows; asked: number; ended: boolean; used: number };

// How many parts of a log are kept, and how often one that is written is asked for
// at most, in milliseconds.
const mostBlocks = 24;
const pause = 100;
// How far apart marks are kept, in bytes, and how long the node waits for more, in
// seconds.
const stride = 64 * 1024;
const patience = 30;
// How much of the end of a long log is shown while it is counted, in bytes.
const tailBytes = 32 * 1024;
// How long a command may need to come to its node, in milliseconds.
const comes = 15_000;

// RemoteLog is a log on a node. It knows where its rows are, and loads the parts
// that are looked at: no more than a few of them are in memory, whatever the length
// of the log.
export class RemoteLog {
  private marks: Mark[] = [{ offset: 0, rows: 0, lines: 0, continued: false }];
  private next: Mark = this.marks[0]!;
  private blocks = new Map<number, Block>();
  private loading = new Set<number>();
  private lineNumbers = new Map<number, number>();
  private watchers = new Set<() => void>();
  private abort = new AbortController();
  private clock = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  // The length of the log so far, in bytes.
  end = 0;
  ended = false;
  // All of it was counted, once.
  counted = false;
  error: unknown;
  // The last rows of a long log, without numbers, while it is counted.
  tail: Rows | undefined;
  // Grows with every change.
  version = 0;

  constructor(private readonly source: Source) {}

  // size is how many rows there are, with the one that is not finished.
  get size(): number {
    return this.next.rows + (this.end > this.next.offset ? 1 : 0);
  }

  // offset is up to where the rows were counted.
  get offset(): number {
    return this.next.offset;
  }

  // lines is how many lines there are, with the one that is not finished.
  get lines(): number {
    return this.next.lines + (this.end > this.next.offset || this.next.continued ? 1 : 0);
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  private changed() {
    this.version++;
    for (const w of this.watchers) w();
  }

  // start follows the log until stop.
  start() {
    this.abort = new AbortController();
    void this.follow(this.abort.signal);
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  private async follow(signal: AbortSignal) {
    const begun = Date.now();
    for (let failures = 0; !signal.aborted && !this.ended; ) {
      try {
        const res = await this.source.index({ offset: this.next.offset, seen: this.end, wait: this.counted ? patience : 0 }, signal);
        failures = 0;
        const base = this.next;
        for (const m of res.marks) {
          const mark = { offset: Number(m.offset), rows: base.rows + Number(m.rows), lines: base.lines + Number(m.lines), continued: m.continued };
          if (mark.offset - this.marks.at(-1)!.offset >= stride) this.marks.push(mark);
        }
        this.next = { offset: Number(res.nextOffset), rows: base.rows + Number(res.rows), lines: base.lines + Number(res.lines), continued: res.continued };
        this.end = Number(res.end);
        this.counted ||= res.complete;
        this.ended = res.ended && res.complete;
        this.error = undefined;
        this.changed();
        if (!this.counted && !this.tail) void this.loadTail(signal);
        if (this.counted && !this.ended) await this.wait(pause, signal);
      } catch (e) {
        if (signal.aborted) return;
        const early = DeckhandError.from(e).rpcCode === "not_found" && Date.now() - begun < comes;
        if (!early && ++failures > 5) {
          this.error = e;
          this.changed();
          return;
        }
        await this.wait(early ? 300 : 250 * 2 ** failures, signal);
      }
    }
  }

  // loadTail loads the end of a log whose rows are being counted.
  private async loadTail(signal: AbortSignal) {
    const from = Math.max(0, this.end - tailBytes);
    this.tail = new Rows(from, new Uint8Array(0), 0, true, []);
    try {
      const pieces: Piece[] = [];
      for await (const p of this.source.read(from, this.end - from, signal)) pieces.push(p);
      const data = joined(pieces, from);
      // Not the rest of the line before.
      const begin = from > 0 ? data.indexOf(0x0a) + 1 : 0;
      this.tail = new Rows(from + begin, data.subarray(begin), NaN, false, pieces.map(({ offset, time }) => ({ offset, time })));
      this.changed();
    } catch {
      // It is shown when the rows are counted.
    }
  }

  private wait(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  // until is where the part that begins with a mark ends. What was not counted yet is no
  // part of any: it may be gigabytes.
  private until(i: number): number {
    return this.marks[i + 1]?.offset ?? (this.counted ? this.end : this.next.offset);
  }

  // unknown reports whether an offset was not counted yet.
  private unknown(offset: number): boolean {
    return !this.counted && offset >= this.next.offset;
  }

  // block returns a part of the log if it is there, and has it loaded if not.
  private block(i: number): Block | undefined {
    const known = this.blocks.get(i);
    if (known) known.used = ++this.clock;
    // What was written since, and what could be the beginning of a secret then.
    const old = !known || known.asked < this.until(i) || (this.ended && !known.ended);
    if (old && !this.loading.has(i)) void this.load(i);
    return known;
  }

  private async load(i: number) {
    const signal = this.abort.signal;
    const mark = this.marks[i]!;
    const [to, ended] = [this.until(i), this.ended];
    if (to <= mark.offset) return;
    this.loading.add(i);
    try {
      const pieces: Piece[] = [];
      for await (const p of this.source.read(mark.offset, to - mark.offset, signal)) pieces.push(p);
      const rows = new Rows(mark.offset, joined(pieces, mark.offset), mark.lines, mark.continued, pieces.map(({ offset, time }) => ({ offset, time })));
      this.blocks.set(i, { rows, asked: to, ended, used: ++this.clock });
      this.forget();
      this.error = undefined;
    } catch (e) {
      if (signal.aborted) return;
      this.error = e;
    } finally {
      this.loading.delete(i);
    }
    if (!signal.aborted) this.changed();
  }

  private forget() {
    while (this.blocks.size > mostBlocks) {
      let oldest: [number, Block] | undefined;
      for (const entry of this.blocks) if (!oldest || entry[1].used < oldest[1].used) oldest = entry;
      this.blocks.delete(oldest![0]);
    }
  }

  // row returns a row; undefined until it has been loaded.
  row(n: number): Row | undefined {
    if (n < 0 || n >= this.size) return undefined;
    const i = lastAt(this.marks, (m) => m.rows <= n);
    return this.block(i)?.rows.row(n - this.marks[i]!.rows);
  }

  // rowAt returns the number of the row that has an offset; undefined until it is
  // known.
  rowAt(offset: number): number | undefined {
    if (this.unknown(offset)) return undefined;
    const i = lastAt(this.marks, (m) => m.offset <= offset);
    const rows = this.block(i)?.rows;
    return rows && this.marks[i]!.rows + Math.max(0, rows.find(offset));
  }

  // rowOf returns the number of the row that a line begins with; undefined until it
  // is known, -1 if there is no such line.
  rowOf(line: number): number | undefined {
    if (!this.counted && line > this.next.lines) return undefined;
    if (line < 1 || line > this.lines) return -1;
    const i = lastAt(this.marks, (m) => m.lines + (m.continued ? 1 : 0) < line);
    const rows = this.block(Math.max(0, i))?.rows;
    if (!rows) return undefined;
    const at = rows.line(line);
    return at < 0 ? this.marks[Math.max(0, i)]!.rows : this.marks[i]!.rows + at;
  }

  // lineAt returns the number of the line that has an offset; undefined until it is
  // known. It is remembered: those of many matches are asked for again and again, and each
  // may be in another part of the log.
  lineAt(offset: number): number | undefined {
    const known = this.lineNumbers.get(offset);
    if (known !== undefined || this.unknown(offset)) return known;
    const i = lastAt(this.marks, (m) => m.offset <= offset);
    const rows = this.block(i)?.rows;
    if (!rows) return undefined;
    let line = this.marks[i]!.lines + 1;
    for (let at = rows.find(offset); at >= 0; at--) {
      const number = rows.row(at)?.number;
      if (number) {
        line = number;
        break;
      }
    }
    this.lineNumbers.set(offset, line);
    return line;
  }
}
