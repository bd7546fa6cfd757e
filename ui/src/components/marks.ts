// What will be executed, written or sent is shown exactly as it is: nothing is
// removed and nothing is obeyed. A character that a terminal or a browser would
// act on, hide, or draw like another one is a mark. The hub's command line marks
// the same ones (internal/literal).

import { nameOf } from "./characters";

declare const acting: unique symbol;

// Act is text of a call: an argument, or what is made of one. It can be shown by
// what shows it literally, and by nothing else.
export type Act = string & { readonly [acting]: true };

// ActValue is what an argument may be.
export type ActValue = Act | number | boolean | null | undefined | ActValue[] | ActObject;
export type ActObject = { [name: string]: ActValue };

// argumentsOf returns the arguments of a call as text that acts.
export function argumentsOf(args: Record<string, unknown> | undefined): ActObject {
  return (args ?? {}) as ActObject;
}

// Mark stands for one character, or several of the same one after another.
export type Mark = { name: string; original: string; count: number };
export type Piece = string | Mark;

const plain = /^[\x20-\x7e\n\t]*$/;
const plainLine = /^[\x20-\x7e]*$/;
const unusual = /[^\x20-\x7e]/gu;

// hidden is a control, format, separator, private or unassigned character, unusual
// space, what is drawn as nothing, or what is drawn like / : and !.
export const hidden =
  /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|\p{Variation_Selector}|\p{Default_Ignorable_Code_Point}|[\u27e6\u27e7\u2800\u2044\u2215\u29f8\ua789\u02d0\u2236\u01c3]/u;
const formsOf = /[\p{Script=Common}\p{Script=Latin}\p{Script=Greek}]/u;
const ascii = /^[\x00-\x7f]*$/; // eslint-disable-line no-control-regex -- all of ASCII

const known = new Map<string, boolean>();

// misleading reports whether a character is invisible, controls how others are
// drawn, has no drawing of its own, or is another form of ASCII text.
function misleading(char: string): boolean {
  let is = known.get(char);
  if (is === undefined) {
    is = hidden.test(char) || disguised(char);
    if (known.size < 50_000) known.set(char, is);
  }
  return is;
}

// disguised reports whether a character is a full-width, mathematical or other
// form of what ASCII has. Numbers such as ² and ½ are read as what they are.
function disguised(char: string): boolean {
  const form = char.normalize("NFKC");
  return form !== char && ascii.test(form) && formsOf.test(char) && !/\p{No}/u.test(char);
}

// Scripts with letters that look like Latin ones.
const resembling =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]/u;
const latin = /\p{Script=Latin}/u;
const words = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}\p{Script=Latin}\p{Nd}_\p{M}]+/gu;
const hosts = /:\/\/([^/?# \t\r\n"'`<>|;()]*)/g;

// lookAlikes returns the places of letters that pass for Latin ones: those of
// another script within a word that has Latin letters too, and everything beyond
// ASCII in the host of a URL.
function lookAlikes(text: string): Set<number> {
  const found = new Set<number>();
  const each = (part: string, from: number, is: (char: string) => boolean) => {
    let at = from;
    for (const char of part) {
      if (is(char)) found.add(at);
      at += char.length;
    }
  };
  if (resembling.test(text)) {
    for (const word of text.matchAll(words)) {
      // What counts is the script, also of what else may stand within a word.
      const chars = [...word[0]];
      if (!chars.some((c) => resembling.test(c)) || !chars.some((c) => latin.test(c) && !resembling.test(c))) continue;
      each(word[0], word.index, (c) => resembling.test(c));
    }
  }
  for (const host of text.matchAll(hosts)) each(host[1]!, host.index + 3, (c) => c > "\x7f");
  return found;
}

// pieces returns text as what is shown as it is, and marks. Line feeds and tabs
// are marks where the text is shown on one line.
export function pieces(text: string, oneLine = false): Piece[] {
  if ((oneLine ? plainLine : plain).test(text)) return text ? [text] : [];
  const alike = lookAlikes(text);
  const out: Piece[] = [];
  let from = 0;
  // The character whose run ends at from, and where it begins.
  let run: { char: string; begin: number } | undefined;
  const close = () => {
    if (!run) return;
    const original = text.slice(run.begin, from);
    out.push({ name: nameOf(run.char), original, count: original.length / run.char.length });
    run = undefined;
  };
  for (const { 0: char, index } of text.matchAll(unusual)) {
    if (char === "\n" || char === "\t" ? !oneLine : !misleading(char) && !alike.has(index)) continue;
    if (index > from || run?.char !== char) {
      close();
      if (index > from) out.push(text.slice(from, index));
      run = { char, begin: index };
    }
    from = index + char.length;
  }
  close();
  if (from < text.length) out.push(text.slice(from));
  return out;
}

// whole reads pieces back.
export function whole(of: readonly Piece[]): string {
  return of.map((p) => (typeof p === "string" ? p : p.original)).join("");
}

// sign is a character's mark where elements cannot be used, as on the command
// line: its picture or its code point in white square brackets, which are marks
// themselves.
function sign(char: string): string {
  const code = char.codePointAt(0)!;
  if (code < 0x20) return `⟦${String.fromCodePoint(0x2400 + code)}⟧`;
  if (code === 0x7f) return "⟦␡⟧";
  return `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

const signed = (of: Piece[]) => of.map((p) => (typeof p === "string" ? p : [...p.original].map(sign).join(""))).join("");

// line returns text on one line with its marks in brackets, for labels, titles
// of windows and other places that take no elements.
export function line(text: string): string {
  return signed(pieces(text, true));
}

// block is line for text of several lines.
export function block(text: string): string {
  return signed(pieces(text));
}

// note returns a sentence that warns of the marks in text; "" where it has none.
export function note(of: readonly Piece[]): string {
  const marks = of.filter((p): p is Mark => typeof p === "object");
  const n = marks.reduce((sum, m) => sum + m.count, 0);
  const named = [...new Set(marks.map((m) => m.name))];
  if (n === 0) return "";
  const as = named.slice(0, 6).join(", ") + (named.length > 6 ? " and others" : "");
  return n === 1
    ? `This text contains 1 character that is invisible, or looks like another one. It is shown as ${as}.`
    : `This text contains ${n} characters that are invisible, or look like others. They are shown as ${as}.`;
}

// json writes a value so that every misleading character is an escape: what is
// read can be edited, and is the same value.
export function json(value: unknown): string {
  const text = JSON.stringify(value, null, 2) ?? "";
  return pieces(text)
    .map((p) => {
      if (typeof p === "string") return p;
      return p.original.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    })
    .join("");
}
