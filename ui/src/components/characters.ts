// The names of characters that do not show themselves, from the Unicode
// Character Database.

const controls =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");

// The 8-bit controls, from U+0080.
const moreControls =
  "PAD HOP BPH NBH IND NEL SSA ESA HTS HTJ VTS PLD PLU RI SS2 SS3 DCS PU1 PU2 STS CCH MW SPA EPA SOS SGC SCI CSI ST OSC PM APC".split(" ");

const names: Record<number, string> = {
  0x00a0: "NO-BREAK SPACE",
  0x00ad: "SOFT HYPHEN",
  0x01c3: "LATIN LETTER RETROFLEX CLICK",
  0x02d0: "MODIFIER LETTER TRIANGULAR COLON",
  0x034f: "COMBINING GRAPHEME JOINER",
  0x061c: "ARABIC LETTER MARK",
  0x115f: "HANGUL CHOSEONG FILLER",
  0x1160: "HANGUL JUNGSEONG FILLER",
  0x1680: "OGHAM SPACE MARK",
  0x180e: "MONGOLIAN VOWEL SEPARATOR",
  0x2000: "EN QUAD",
  0x2001: "EM QUAD",
  0x2002: "EN SPACE",
  0x2003: "EM SPACE",
  0x2004: "THREE-PER-EM SPACE",
  0x2005: "FOUR-PER-EM SPACE",
  0x2006: "SIX-PER-EM SPACE",
  0x2007: "FIGURE SPACE",
  0x2008: "PUNCTUATION SPACE",
  0x2009: "THIN SPACE",
  0x200a: "HAIR SPACE",
  0x200b: "ZERO WIDTH SPACE",
  0x200c: "ZERO WIDTH NON-JOINER",
  0x200d: "ZERO WIDTH JOINER",
  0x200e: "LEFT-TO-RIGHT MARK",
  0x200f: "RIGHT-TO-LEFT MARK",
  0x2028: "LINE SEPARATOR",
  0x2029: "PARAGRAPH SEPARATOR",
  0x202a: "LEFT-TO-RIGHT EMBEDDING",
  0x202b: "RIGHT-TO-LEFT EMBEDDING",
  0x202c: "POP DIRECTIONAL FORMATTING",
  0x202d: "LEFT-TO-RIGHT OVERRIDE",
  0x202e: "RIGHT-TO-LEFT OVERRIDE",
  0x202f: "NARROW NO-BREAK SPACE",
  0x2044: "FRACTION SLASH",
  0x205f: "MEDIUM MATHEMATICAL SPACE",
  0x2060: "WORD JOINER",
  0x2061: "FUNCTION APPLICATION",
  0x2062: "INVISIBLE TIMES",
  0x2063: "INVISIBLE SEPARATOR",
  0x2064: "INVISIBLE PLUS",
  0x2066: "LEFT-TO-RIGHT ISOLATE",
  0x2067: "RIGHT-TO-LEFT ISOLATE",
  0x2068: "FIRST STRONG ISOLATE",
  0x2069: "POP DIRECTIONAL ISOLATE",
  0x2215: "DIVISION SLASH",
  0x2236: "RATIO",
  0x27e6: "MATHEMATICAL LEFT WHITE SQUARE BRACKET",
  0x27e7: "MATHEMATICAL RIGHT WHITE SQUARE BRACKET",
  0x2800: "BRAILLE PATTERN BLANK",
  0x29f8: "BIG SOLIDUS",
  0x3000: "IDEOGRAPHIC SPACE",
  0x3164: "HANGUL FILLER",
  0xa789: "MODIFIER LETTER COLON",
  0xfeff: "ZERO WIDTH NO-BREAK SPACE",
  0xffa0: "HALFWIDTH HANGUL FILLER",
  0xe0001: "LANGUAGE TAG",
  0xe007f: "CANCEL TAG",
};

const kinds: [RegExp, string][] = [
  [/\p{Variation_Selector}/u, "VARIATION SELECTOR"],
  [/\p{Cs}/u, "LONE SURROGATE"],
  [/\p{Co}/u, "PRIVATE USE"],
  [/\p{Cn}/u, "UNASSIGNED"],
  [/\p{Zs}/u, "SPACE"],
  [/\p{Cf}|\p{Default_Ignorable_Code_Point}/u, "INVISIBLE"],
  [/\p{Script=Cyrillic}/u, "CYRILLIC"],
  [/\p{Script=Greek}/u, "GREEK"],
  [/\p{Script=Armenian}/u, "ARMENIAN"],
  [/\p{Script=Cherokee}/u, "CHEROKEE"],
  [/\p{Script=Coptic}/u, "COPTIC"],
  [/\p{Script=Lisu}/u, "LISU"],
];

// nameOf returns what a character is called: ESC, or U+202E RIGHT-TO-LEFT
// OVERRIDE.
export function nameOf(char: string): string {
  const code = char.codePointAt(0)!;
  if (code < 0x20) return controls[code]!;
  if (code === 0x7f) return "DEL";
  const point = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return `${point} ${wordsFor(char, code)}`.trimEnd();
}

function wordsFor(char: string, code: number): string {
  if (code >= 0x80 && code < 0xa0) return moreControls[code - 0x80]!;
  if (names[code]) return names[code];
  if (code > 0xe0020 && code < 0xe007f) return `TAG ${String.fromCharCode(code - 0xe0000)}`;
  if (code === 0xe0020) return "TAG SPACE";
  for (const [kind, word] of kinds) if (kind.test(char)) return word;
  const form = char.normalize("NFKC");
  return form !== char ? `LIKE ${form.trim()}`.trim() : char; // a letter of a host name
}
