import type { Language, Token } from "./languages";

// Grammar is what tells the parts of a language apart: enough for colours.
type Grammar = {
  // Beginnings of a comment that ends with its line.
  line: string[];
  block?: [string, string];
  // The quotes of strings, longest first; those in raw know no backslash, those in
  // long go over lines.
  quotes: string[];
  raw?: string[];
  long?: string[];
  keywords: Set<string>;
  anyCase?: boolean;
  // A comment begins at the begin of a word only.
  apart?: boolean;
};

const words = (text: string) => new Set(text.split(" "));
const cLike = { line: ["//"], block: ["/*", "*/"] as [string, string], quotes: ['"', "'"] };

const grammars: Partial<Record<Language, Grammar>> = {
  c: {
    ...cLike,
    keywords: words(
      "#include #define #ifdef #ifndef #endif #if #else auto bool break case char class const constexpr continue default delete do double else enum explicit extern false float for friend goto if import inline int let long message mutable namespace new nullptr operator optional override package private protected public repeated return rpc service short signed sizeof static string struct switch syntax template this throw true try typedef typename union unsigned using virtual void volatile while func var guard",
    ),
  },
  go: {
    ...cLike,
    quotes: ["`", '"', "'"],
    raw: ["`"],
    long: ["`"],
    keywords: words(
      "any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int32 int64 interface iota map nil package range return rune select string struct switch true type uint uint8 uint32 uint64 var",
    ),
  },
  java: {
    ...cLike,
    quotes: ['"""', '"', "'"],
    long: ['"""'],
    keywords: words(
      "abstract assert boolean break byte case catch char class const continue data default do double else enum extends false final finally float for fun if implements import in instanceof int interface is long native new null object override package private protected public return short static super switch synchronized this throw throws true try val var void volatile when while",
    ),
  },
  php: {
    line: ["//", "#"],
    block: ["/*", "*/"],
    quotes: ['"', "'"],
    keywords: words(
      "abstract and array as break case catch class clone const continue declare default do echo else elseif empty extends false final finally fn for foreach function if implements include instanceof interface isset match namespace new null or print private protected public require return static switch throw trait true try unset use var while yield",
    ),
  },
  python: {
    line: ["#"],
    quotes: ['"""', "'''", '"', "'"],
    long: ['"""', "'''"],
    keywords: words(
      "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield",
    ),
  },
  ruby: {
    line: ["#"],
    quotes: ['"', "'"],
    keywords: words(
      "BEGIN END alias and begin break case class def defined? do else elsif end ensure false for if in module next nil not or redo require rescue retry return self super then true undef unless until when while yield",
    ),
  },
  rust: {
    ...cLike,
    quotes: ['"'],
    long: ['"'],
    keywords: words(
      "as async await bool break char const continue crate dyn else enum extern false fn for i32 i64 if impl in let loop match mod move mut pub ref return self Self static str String struct super trait true type u8 u32 u64 unsafe use usize where while",
    ),
  },
  shell: {
    line: ["#"],
    quotes: ['"', "'"],
    raw: ["'"],
    long: ['"', "'"],
    apart: true,
    keywords: words("case do done elif else esac export fi for function if in local readonly return set source then trap unset until while sudo cd echo exit eval exec"),
  },
  docker: {
    line: ["#"],
    quotes: ['"', "'"],
    apart: true,
    anyCase: true,
    keywords: words("add arg as cmd copy entrypoint env expose from healthcheck label onbuild run shell stopsignal user volume workdir"),
  },
  sql: {
    line: ["--"],
    block: ["/*", "*/"],
    quotes: ["'", '"'],
    raw: ["'", '"'],
    long: ["'"],
    anyCase: true,
    keywords: words(
      "add all alter and any as asc begin between bigint boolean by case cascade check column commit constraint create cross default delete desc distinct drop else end exists false foreign from full function group having if in index inner insert int integer into is join key left like limit not null on or order outer primary references returning right rollback select set table text then timestamptz true union unique update using values view when where with",
    ),
  },
  toml: { line: ["#"], quotes: ['"""', "'''", '"', "'"], long: ['"""', "'''"], raw: ["'", "'''"], keywords: words("true false") },
  ini: { line: ["#", ";"], quotes: ['"'], apart: true, keywords: words("true false yes no on off") },
};

export type Styles = { keyword: string; literal: string; comment: string; name: string };

const word = /[A-Za-z_#][A-Za-z0-9_?]*/y;
const number = /(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)/y;

// scan finds comments, strings, numbers and keywords of a language. It looks at
// each character a few times at most.
export function scan(text: string, language: Language, styles: Styles): Token[] {
  if (language === "diff") return diff(text, styles);
  const of = grammars[language];
  if (!of) return [];
  const tokens: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const end = comment(text, at, of);
    if (end > at) {
      tokens.push({ from: at, to: end, style: styles.comment });
      at = end;
      continue;
    }
    const quote = of.quotes.find((q) => text.startsWith(q, at));
    if (quote) {
      const to = string(text, at, quote, of);
      tokens.push({ from: at, to, style: styles.literal });
      at = to;
      continue;
    }
    word.lastIndex = at;
    const found = word.exec(text)?.[0];
    if (found) {
      if (of.keywords.has(of.anyCase ? found.toLowerCase() : found)) tokens.push({ from: at, to: at + found.length, style: styles.keyword });
      at += found.length;
      continue;
    }
    number.lastIndex = at;
    const digits = number.exec(text)?.[0];
    if (digits) tokens.push({ from: at, to: at + digits.length, style: styles.literal });
    at += digits?.length ?? 1;
  }
  return tokens;
}

// comment returns where the comment at a place ends; the place itself for none.
function comment(text: string, at: number, of: Grammar): number {
  if (of.block && text.startsWith(of.block[0], at)) {
    const end = text.indexOf(of.block[1], at + of.block[0].length);
    return end < 0 ? text.length : end + of.block[1].length;
  }
  if (!of.line.some((l) => text.startsWith(l, at))) return at;
  if (of.apart && at > 0 && !/\s/.test(text[at - 1]!)) return at;
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

// string returns where the string at a place ends: at the end of its line, if it
// has no quote there and does not go over lines.
function string(text: string, at: number, quote: string, of: Grammar): number {
  const long = of.long?.includes(quote);
  const raw = of.raw?.includes(quote);
  for (let i = at + quote.length; i < text.length; i++) {
    if (text[i] === "\\" && !raw) i++;
    else if (text.startsWith(quote, i)) return i + quote.length;
    else if (text[i] === "\n" && !long) return i;
  }
  return text.length;
}

function diff(text: string, styles: Styles): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const feed = text.indexOf("\n", at);
    const to = feed < 0 ? text.length : feed;
    const style = { "+": "text-good", "-": "text-bad", "@": styles.keyword }[text[at]!];
    if (style && to > at) tokens.push({ from: at, to, style });
    at = to + 1;
  }
  return tokens;
}
