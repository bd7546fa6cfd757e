import { pieces, type Piece } from "./marks";

// Line is a line of a text with its line feed, or what a part has of it.
export type Line = { number: number; continued: boolean; pieces: Piece[] };

// Part is as much of a text as is drawn at a time: a browser stands still over
// megabytes, and over tens of thousands of marks.
export type Part = { lines: Line[] };

export type Parts = { pieces: Piece[]; parts: Part[]; lines: number };

const mostUnits = 128 * 1024;
const mostNodes = 6_000;

// partsOf returns text in parts: together they are the whole of it.
export function partsOf(text: string): Parts {
  const all = pieces(text);
  const parts: Part[] = [];
  let part: Part = { lines: [] };
  let [units, nodes, number] = [0, 0, 0];
  let ended = true;
  for (const token of tokens(all)) {
    const size = typeof token === "string" ? token.length : token.original.length;
    if (nodes > 0 && (units + size > mostUnits || nodes >= mostNodes)) {
      parts.push(part);
      part = { lines: ended ? [] : [{ number, continued: true, pieces: [] }] };
      [units, nodes] = [0, 0];
    }
    if (ended) part.lines.push({ number: ++number, continued: false, pieces: [] });
    part.lines.at(-1)!.pieces.push(token);
    units += size;
    nodes++;
    ended = typeof token === "string" && token.endsWith("\n");
  }
  parts.push(part);
  return { pieces: all, parts, lines: number };
}

// tokens cuts pieces at line feeds, and lines that are too long for a part.
function* tokens(all: Piece[]): Generator<Piece> {
  for (const piece of all) {
    if (typeof piece !== "string") {
      yield piece;
      continue;
    }
    for (let from = 0; from < piece.length; ) {
      const feed = piece.indexOf("\n", from);
      const end = cut(piece, from, feed < 0 ? piece.length : feed + 1);
      yield piece.slice(from, end);
      from = end;
    }
  }
}

// cut returns where a token ends: never inside a character.
function cut(text: string, from: number, end: number): number {
  if (end - from <= mostUnits) return end;
  const at = from + mostUnits;
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit < 0xe000 ? at - 1 : at;
}
