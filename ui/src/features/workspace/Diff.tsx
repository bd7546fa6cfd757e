import { inert } from "@/components/inert";
import { cx } from "@/components/cx";

const most = 5_000;

// Diff shows a unified diff. It is coloured, and says by its signs what the
// colours mean.
export function Diff(props: { text: string; label: string }) {
  const lines = props.text.replace(/\n$/, "").split("\n");
  return (
    <pre tabIndex={0} aria-label={props.label} className="overflow-x-auto rounded border bg-raised py-1 font-mono text-xs">
      {lines.slice(0, most).map((line, i) => (
        <div
          key={i}
          className={cx(
            "px-2",
            line.startsWith("+") && "bg-good/10 text-good",
            line.startsWith("-") && "bg-bad/10 text-bad",
            line.startsWith("@@") && "text-info",
          )}
        >
          {inert(line) || " "}
        </div>
      ))}
      {lines.length > most && <div className="px-2 text-dim">[… {lines.length - most} more lines]</div>}
    </pre>
  );
}
