import Anser from "anser";
import { inert, printed, withoutEscapes } from "./inert";

// Run is a part of a row in one style: classes of the theme, which can be read on
// its panel, or a colour of the output mixed with the theme's ink.
export type Run = { text: string; className: string; colour?: string };

const classes: Record<string, string> = {
  "ansi-black": "text-dim",
  "ansi-red": "text-bad",
  "ansi-green": "text-good",
  "ansi-yellow": "text-warn",
  "ansi-blue": "text-info",
  "ansi-magenta": "text-[color-mix(in_srgb,#c02bd0_65%,var(--ink))]",
  "ansi-cyan": "text-accent",
  "ansi-white": "",
};

const decorations: Record<string, string> = { bold: "font-semibold", italic: "italic", underline: "underline", strikethrough: "line-through", dim: "text-dim" };

// runsOf returns a row of output as what is shown: colours, and nothing else of what
// a terminal would obey. Text is never hidden: colours of the ground and the order to
// conceal are left out.
export function runsOf(text: string, colours = ""): Run[] {
  // eslint-disable-next-line no-control-regex -- most rows have none
  if (!colours && !/[\u001b\u009b]/.test(text)) return [{ text: inert(printed(text)), className: "" }];
  const line = text.replace(/\r+$/, "");
  const shown = line.slice(line.lastIndexOf("\r") + 1);
  return Anser.ansiToJson(withoutEscapes(printed(colours + shown)), { use_classes: true, remove_empty: true }).flatMap((part): Run[] => {
    const content = inert(printed(part.content));
    if (!content) return [];
    const name = part.fg?.replace("-bright", "") ?? "";
    const exact = part.fg === "ansi-truecolor" ? part.fg_truecolor : palette(part.fg);
    return [
      {
        text: content,
        className: [classes[name], ...(part.decorations ?? []).map((d) => decorations[d])].filter(Boolean).join(" "),
        colour: exact ? `color-mix(in srgb, rgb(${exact}) 60%, var(--ink))` : undefined,
      },
    ];
  });
}

// palette returns a colour of the 256 as red, green and blue; undefined for others.
function palette(name: string | null): string | undefined {
  const n = Number(/^ansi-palette-(\d+)$/.exec(name ?? "")?.[1] ?? NaN);
  if (Number.isNaN(n)) return undefined;
  if (n >= 232) return Array(3).fill((n - 232) * 10 + 8).join(", ");
  const level = (v: number) => (v === 0 ? 0 : v * 40 + 55);
  const at = n - 16;
  return [Math.floor(at / 36), Math.floor(at / 6) % 6, at % 6].map(level).join(", ");
}
