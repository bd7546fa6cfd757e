import { MessageCircle, Zap } from "lucide-react";
import { cx } from "@/components/cx";
import { setMode, useMode, type Mode } from "./mode";

const modes: [Mode, string, typeof Zap][] = [
  ["chat", "Chat", MessageCircle],
  ["agent", "Agent", Zap],
];

// ModeToggle says which mode is on, and changes it.
export function ModeToggle() {
  const mode = useMode();
  return (
    <div role="radiogroup" aria-label="Mode" className="inline-flex rounded-md border bg-panel p-0.5">
      {modes.map(([value, word, Icon]) => (
        <label
          key={value}
          className={cx(
            "flex min-h-7 cursor-pointer items-center gap-1.5 rounded px-2.5 text-sm has-focus-visible:outline-2 has-focus-visible:outline-accent",
            mode === value ? "bg-accent font-medium text-accent-ink" : "text-dim hover:text-ink",
          )}
        >
          <input type="radio" name="mode" className="sr-only" checked={mode === value} onChange={() => setMode(value)} />
          <Icon aria-hidden className="size-4" /> {word}
        </label>
      ))}
    </div>
  );
}
