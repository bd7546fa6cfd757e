// What agents and their commands print is hostile. React writes it as text,
// never as HTML; this takes out what a terminal would obey, and what makes text
// read otherwise than it is.

// CSI, OSC, DCS, SOS, PM and APC sequences, two-byte escapes, and their 8-bit
// forms. A string sequence that never ends is cut at the end of its line.
const escapes =
  // eslint-disable-next-line no-control-regex -- control characters are what this is about
  /\u001b\[[0-?]*[ -/]*[@-~]|\u009b[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]|\u001b/g;
// eslint-disable-next-line no-control-regex -- as above
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
// Marks that turn the direction of what follows, and invisible ones.
const deceits = /[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

// inert answers text without anything that a terminal or a reader could be
// fooled with. Line breaks and tabs stay; of a line that overwrites itself the
// last form stays.
export function inert(text: string): string {
  return overwritten(text.replace(escapes, "")).replace(controls, "").replace(deceits, "\ufffd");
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

// safeLink answers a URL that may be followed, or nothing: only http and https
// lead anywhere.
export function safeLink(url: string): string | undefined {
  try {
    const parsed = new URL(url);
    return parsed.protocol === "https:" || parsed.protocol === "http:" ? parsed.href : undefined;
  } catch {
    return undefined;
  }
}
