// What commands print is hostile. React writes it as text, never as HTML; this
// takes out what a terminal would obey, and what makes text read otherwise than
// it is. What will be executed, written or sent is never shown in this way: see
// components/marks.

import type { Act } from "@/components/marks";

declare const printing: unique symbol;

// Printed is what a command printed. No other text has this type, so that no
// other text can be passed to inert.
export type Printed = string & { readonly [printing]: true };

// printed returns output as such. It does not take the arguments of calls.
export function printed<T extends string>(output: T extends Act ? never : T): Printed {
  return output as string as Printed;
}

// CSI, OSC, DCS, SOS, PM and APC sequences, two-byte escapes, and their 8-bit
// forms. A string sequence that never ends is cut at the end of its line.
const escapes =
  // eslint-disable-next-line no-control-regex -- control characters are what this is about
  /\u001b\[[0-?]*[ -/]*[@-~]|\u009b[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]|\u001b/g;
// eslint-disable-next-line no-control-regex -- as above
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
// Marks that turn the direction of what follows, and invisible ones.
const deceits = /[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

// inert returns output without anything that a terminal or a reader could be
// fooled with. Line breaks and tabs stay; of a line that overwrites itself the
// last form stays.
export function inert(text: Printed): string {
  return overwritten(text.replace(escapes, "")).replace(controls, "").replace(deceits, "\ufffd");
}

// eslint-disable-next-line no-control-regex -- as above
const colour = /^(?:\u001b\[|\u009b)[\d;:]*m$/;

// withoutEscapes returns output with the escape sequences that set colours, and no
// others.
export function withoutEscapes(text: Printed): string {
  return text.replace(escapes, (sequence) => (colour.test(sequence) ? sequence.replace("\u009b", "\u001b[").replaceAll(":", ";") : ""));
}

// overwritten takes out what a carriage return went back over. It looks at each
// character once: the text may be one long line.
function overwritten(text: string): string {
  if (!text.includes("\r")) return text;
  return text
    .split("\n")
    .map((line) => {
      const whole = line.replace(/\r+$/, "");
      return whole.slice(whole.lastIndexOf("\r") + 1);
    })
    .join("\n");
}
