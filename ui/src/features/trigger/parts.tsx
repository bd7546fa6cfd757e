import { base } from "@/api/base";
import { Badge } from "@/components/Badge";
import { absolute, millis, Time } from "@/components/Time";
import type { Delivery, Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { deliveryLooks, triggerLooks } from "./words";

export function TriggerBadge({ of }: { of: Trigger }) {
  const look = triggerLooks[of.state] ?? triggerLooks[0];
  return (
    <span className="inline-flex flex-wrap gap-1">
      <Badge tone={look.tone} dot title={of.reason}>
        {look.word}
      </Badge>
      {of.held && (
        <Badge tone="bad" title={of.held}>
          held
        </Badge>
      )}
    </span>
  );
}

export function DeliveryBadge({ of }: { of: Delivery }) {
  const look = deliveryLooks[of.state] ?? deliveryLooks[0];
  return (
    <Badge tone={look.tone} dot title={of.reason}>
      {look.word}
    </Badge>
  );
}

// NextRuns are the times at which a trigger fires next, in the reader's zone.
export function NextRuns({ of }: { of: Trigger }) {
  if (of.nextRuns.length === 0) return <span className="text-dim">none</span>;
  return (
    <ol className="space-y-0.5">
      {of.nextRuns.map((at, i) => (
        <li key={i} className={i > 0 ? "text-xs text-dim" : "whitespace-nowrap"}>
          {i === 0 ? (
            <>
              <Time at={at} /> <span className="text-xs text-dim">{absolute(millis(at) ?? 0)}</span>
            </>
          ) : (
            absolute(millis(at) ?? 0)
          )}
        </li>
      ))}
    </ol>
  );
}

// urlOf is where a webhook's sender sends to.
export const urlOf = (path: string) => new URL(path.replace(/^\//, ""), base).href;
