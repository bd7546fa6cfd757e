import type { ReactNode } from "react";
import { cx } from "./cx";

export type Tone = "neutral" | "good" | "warn" | "bad" | "info" | "accent";

const tones: Record<Tone, string> = {
  neutral: "text-dim",
  good: "text-good",
  warn: "text-warn",
  bad: "text-bad",
  info: "text-info",
  accent: "text-accent",
};

// Badge is a short word about something. Its tone only underlines what the word
// says.
export function Badge(props: { tone?: Tone; title?: string; dot?: boolean; live?: boolean; children: ReactNode }) {
  return (
    <span
      title={props.title}
      className={cx(
        "inline-flex items-center gap-1.5 rounded-full border bg-panel px-2 py-px text-xs font-medium whitespace-nowrap",
        tones[props.tone ?? "neutral"],
      )}
    >
      {props.dot && (
        // A ring, not a movement: hundreds that move keep the browser drawing.
        <span aria-hidden className={cx("size-1.5 rounded-full bg-current", props.live && "outline-2 outline-current/40")} />
      )}
      {props.children}
    </span>
  );
}
