import { rowBytes, type Piece } from "./source";

// Row is a line of the output, or a part of a long one.
export type Row = {
  offset: number;
  // Of its line, from 1; 0 for a row that goes on with the one before.
  number: number;
  text: string;
  // The colours that are on where it begins: escape sequences.
  colours: string;
  time?: number;
};

const feed = 0x0a;
const escape = 0x1b;
// eslint-disable-next-line no-control-regex -- what sets colours
const colour = /\u001b\[[\d;:]*m/g;

// Rows are the rows of a part of a log, as the node counts them: the part begins
// with a row.
export class Rows {
  private readonly from: number[] = [];
  private readonly numbers: number[] = [];
  private readonly colours: string[] | undefined;
  private readonly decoder = new TextDecoder();

  constructor(
    readonly offset: number,
    private readonly data: Uint8Array,
    line: number,
    continued: boolean,
    private readonly times: readonly { offset: number; time?: number }[],
  ) {
    let number = continued ? 0 : line + 1;
    let next = line + 1;
    for (let at = 0; at < data.length; ) {
      const end = data.indexOf(feed, at);
      const to = end < 0 ? data.length : end;
      for (let from = at; from === at || from < to; from += rowBytes) {
        this.from.push(from);
        this.numbers.push(number);
        number = 0;
      }
      number = ++next;
      at = to + 1;
    }
    if (data.includes(escape)) this.colours = this.follow();
  }

  get size(): number {
    return this.from.length;
  }

  // follow returns the colours that are on where each row begins.
  private follow(): string[] {
    let on = "";
    return this.from.map((_, i) => {
      const before = on;
      for (const [sequence] of this.text(i).matchAll(colour)) on = /^.\[0*m$/.test(sequence) ? "" : (on + sequence).slice(-200);
      return before;
    });
  }

  row(i: number): Row | undefined {
    const from = this.from[i];
    if (from === undefined) return undefined;
    return {
      offset: this.offset + from,
      number: this.numbers[i]!,
      text: this.text(i),
      colours: this.colours?.[i] ?? "",
      time: this.timeAt(this.offset + from),
    };
  }

  // text returns a row without its line feed. A character that a row's end cuts in
  // two belongs to the row that it begins in.
  private text(i: number): string {
    const data = this.data;
    const next = this.from[i + 1] ?? data.length;
    let from = this.from[i]!;
    if (this.numbers[i] === 0) for (let n = 0; n < 3 && isRest(data[from]); n++) from++;
    let to = next;
    if (data[to - 1] === feed && to > this.from[i]!) to--;
    else for (let n = 0; n < 3 && isRest(data[to]); n++) to++;
    return this.decoder.decode(data.subarray(Math.min(from, to), to));
  }

  private timeAt(offset: number): number | undefined {
    return this.times[lastAt(this.times, (t) => t.offset <= offset)]?.time;
  }

  // find returns the row that has an offset.
  find(offset: number): number {
    return lastAt(this.from, (f) => this.offset + f <= offset);
  }

  // line returns the first row of a line; -1 if it is not here.
  line(number: number): number {
    return this.numbers.indexOf(number);
  }
}

const isRest = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

// lastAt returns the place of the last element of which something is true, where it
// is true of all before it; -1 if there is none.
export function lastAt<T>(of: readonly T[], is: (one: T) => boolean): number {
  let [low, high] = [0, of.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(of[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// joined puts pieces of a log together, from an offset on. Where nothing was kept
// there are zeros, which are not shown.
export function joined(pieces: readonly Piece[], offset: number): Uint8Array {
  const last = pieces.at(-1);
  const data = new Uint8Array(last ? last.offset + last.data.length - offset : 0);
  for (const p of pieces) data.set(p.data, p.offset - offset);
  return data;
}
