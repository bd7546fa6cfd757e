import { Link } from "@tanstack/react-router";
import { LiteralBlock } from "@/components/Literal";
import { Time } from "@/components/Time";
import { Tail } from "@/features/log/Tail";
import { InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";

// UnknownBody shows what is known of a call of which nobody knows whether it took
// effect: the newest of its output first.
export function UnknownBody({ item }: { item: InboxItem }) {
  const last = lastLines(item.evidence);
  return (
    <section aria-label="Evidence" className="space-y-1.5">
      <p>
        It was asked for <Time at={item.askedAt} />, and its end was not reported.{" "}
        <Link to="/tasks/$task" params={{ task: item.taskId }} className="text-accent hover:underline">
          See its log and the files that changed since
        </Link>
      </p>
      {item.stepId && (
        // What it prints says nothing new about what is asked: answers stay possible.
        <div data-clock>
          <Tail execId={item.stepId} lines={20} label="Last output of the command" className="max-h-56" live={item.state === InboxState.OPEN} />
        </div>
      )}
      {item.evidence ? (
        <>
          <h3 className="text-xs text-dim">What is known, the newest first</h3>
          <LiteralBlock text={last} label="Evidence" />
        </>
      ) : (
        <p className="text-dim">Nothing is known: it had printed nothing.</p>
      )}
    </section>
  );
}

// lastLines returns the lines of a text, the last one first.
export function lastLines(text: string): string {
  return text.replace(/\n$/, "").split("\n").reverse().join("\n");
}
