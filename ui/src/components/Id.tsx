import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { cx } from "./cx";
import { Literal } from "./Literal";
import { line } from "./marks";

// copy puts text on the clipboard; false where the browser forbids it.
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// Id shows an id, shortened unless whole, that a click copies in full.
export function Id(props: { value: string; whole?: boolean; className?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const shown = props.whole ? props.value : shorten(props.value);
  return (
    <button
      type="button"
      title={`${line(props.value)} (copy)`}
      onClick={(e) => {
        e.preventDefault();
        e.stopPropagation();
        void copy(props.value).then(setCopied);
      }}
      className={cx(
        "group inline-flex min-h-6 max-w-full items-center gap-1 rounded font-mono text-xs hover:text-accent",
        props.className,
      )}
    >
      <span className="sr-only">Copy </span>
      <Literal className="truncate" text={shown} />
      {copied ? (
        <Check aria-hidden className="size-3 shrink-0 text-good" />
      ) : (
        <Copy aria-hidden className="size-3 shrink-0 opacity-40 group-hover:opacity-100" />
      )}
      <span role="status" className="sr-only">
        {copied ? "Copied" : ""}
      </span>
    </button>
  );
}

// shorten keeps what tells ids apart: a kind and the first digits.
export function shorten(id: string): string {
  const at = id.indexOf("_");
  return at > 0 && id.length > at + 9 ? id.slice(0, at + 9) : id;
}
