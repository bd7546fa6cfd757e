import { Link } from "@tanstack/react-router";
import { Literal } from "@/components/Literal";
import { Time } from "@/components/Time";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";

// EscalationBody says why a task does not go on, with its last failures.
export function EscalationBody({ item }: { item: InboxItem }) {
  const of = item.escalation;
  return (
    <div className="space-y-2">
      <p className="rounded-md border border-warn p-2.5 break-words">
        <Literal className="literal-prose" text={item.why || item.preview} />
      </p>
      {of && of.failures.length > 0 && (
        <section aria-label="Last failures" className="space-y-1">
          <h3 className="text-xs font-medium text-dim">Last failures</h3>
          <ol className="space-y-1">
            {of.failures.map((f, i) => (
              <li key={i} className="flex gap-3">
                <span className="text-xs whitespace-nowrap text-dim">
                  <Time at={f.at} />
                </span>
                <span className="min-w-0 break-words">
                  <Literal text={f.message} />
                  {f.errorCode && <span className="text-xs text-dim"> {f.errorCode}</span>}
                </span>
              </li>
            ))}
          </ol>
        </section>
      )}
      {of && (of.provider || of.nodeId) && (
        <p className="text-xs text-dim">
          It ran with {of.provider && <Literal text={`${of.provider}/${of.model}`} />}
          {of.nodeId && (
            <>
              {" "}
              on{" "}
              <Link to="/nodes/$nodeId" params={{ nodeId: of.nodeId }} className="text-accent hover:underline">
                its node
              </Link>
            </>
          )}
          {of.remedies.includes("model") && (
            <>
              .{" "}
              <Link to="/providers" className="text-accent hover:underline">
                See the state of the providers
              </Link>
            </>
          )}
        </p>
      )}
    </div>
  );
}
