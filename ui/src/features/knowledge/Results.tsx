import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Literal, Prose } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import type { Passage } from "@/gen/deckhand/v1/knowledge_pb";

// Results lists the passages that a search found, each with its place, which opens it.
export function Results(props: {
  found?: Passage[];
  pending: boolean;
  error?: Error;
  // Why the search by meaning was left out; empty if it was made.
  note: string;
  retry: () => void;
  onOpen: (id: string) => void;
  onClear: () => void;
}) {
  if (props.error) return <Problem error={props.error} retry={props.retry} />;
  if (props.pending) return <Skeletons />;
  if (!props.found?.length) return <Empty title="Nothing found">Try other words, or all collections. {props.note}</Empty>;
  return (
    <section aria-label="Passages" className="space-y-3">
      <div className="flex items-center justify-between gap-2">
        <p role="status" className="text-dim">
          {props.found.length} passages, the best first
        </p>
        <Button small onClick={props.onClear}>
          Show collections
        </Button>
      </div>
      {props.note !== "" && <Literal className="block text-xs text-dim" text={props.note} />}
      <ol className="space-y-3">
        {props.found.map((p) => (
          <li key={p.id} className="rounded-lg border bg-panel p-3">
            <button type="button" className="text-left font-medium break-all hover:underline" onClick={() => props.onOpen(p.id)}>
              <Literal text={p.citation} />
            </button>
            {p.foundBy.includes("meaning") && <span className="text-xs text-dim"> by meaning</span>}
            {p.heading !== "" && <Literal className="block text-xs text-dim" text={p.heading} />}
            <p className="line-clamp-4 pt-1 break-words whitespace-pre-wrap">
              <Prose text={p.text} />
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}
