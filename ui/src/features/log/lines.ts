import { inert, printed } from "./inert";

// Lines holds the output of a command as rows that can be drawn: text without
// escapes, and lines longer than a row in several. It is fed bytes in order.
export class Lines {
  // Rows that are whole. A row after the first of a long line begins with no
  // number.
  private readonly rows: string[] = [];
  private readonly numbers: number[] = [];
  private readonly decoder = new TextDecoder();
  private rest = "";
  private line = 1;
  // Bytes that were fed.
  bytes = 0;

  // The longest row, in characters: a line of a megabyte would stop the page.
  static readonly longest = 2_000;
  // The part of an unfinished line that is kept for its escapes.
  private static readonly most = 64_000;

  add(data: Uint8Array) {
    this.bytes += data.length;
    this.rest += this.decoder.decode(data, { stream: true });
    const end = this.rest.lastIndexOf("\n");
    if (end >= 0) {
      const whole = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + 1);
      for (const line of whole.split("\n")) this.push(line, true);
    }
    if (this.rest.length > Lines.most) {
      this.push(this.rest, false);
      this.rest = "";
    }
  }

  private continued = false;

  private push(line: string, ended: boolean) {
    // A line's own \r\n is one break.
    const text = inert(printed(line.endsWith("\r") ? line.slice(0, -1) : line));
    let first = !this.continued;
    for (let at = 0; at === 0 || at < text.length; at += Lines.longest) {
      this.rows.push(text.slice(at, at + Lines.longest));
      this.numbers.push(first ? this.line : 0);
      first = false;
    }
    this.continued = !ended;
    if (ended) this.line++;
  }

  // size is how many rows there are, with the one that is not finished.
  get size(): number {
    return this.rows.length + (this.rest ? 1 : 0);
  }

  row(i: number): string {
    return this.rows[i] ?? inert(printed(this.rest)).slice(-Lines.longest);
  }

  // number is the number of the line that begins with a row; 0 for none.
  number(i: number): number {
    return i < this.numbers.length ? (this.numbers[i] ?? 0) : this.continued ? 0 : this.line;
  }

  // find returns the rows that contain text, ignoring case.
  find(text: string, most = 10_000): number[] {
    const wanted = text.toLowerCase();
    const hits: number[] = [];
    if (!wanted) return hits;
    for (let i = 0; i < this.size && hits.length < most; i++) {
      if (this.row(i).toLowerCase().includes(wanted)) hits.push(i);
    }
    return hits;
  }
}
