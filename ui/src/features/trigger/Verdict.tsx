import { Badge } from "@/components/Badge";
import { Id } from "@/components/Id";
import { Literal, LiteralBlock } from "@/components/Literal";
import { Facts } from "@/components/Section";
import type { TestTriggerResponse } from "@/gen/deckhand/v1/trigger_pb";
import { deliveryLooks } from "./words";

const overlaps: Record<string, string> = { allow: "Run in parallel", skip: "Skip", queue: "Queue", replace: "Replace the active run" };

// Verdict shows what would become of a payload.
export function Verdict({ of }: { of: TestTriggerResponse }) {
  const look = deliveryLooks[of.state] ?? deliveryLooks[0];
  return (
    <div className="space-y-3">
      <Facts
        of={[
          ["Outcome", <Badge key="b" tone={look.tone} dot>{look.word}</Badge>],
          ["Reason", of.reason && <Literal text={of.reason} />],
          ["Agent", of.agentName],
          ["Git ref", of.gitRef && <Literal text={of.gitRef} />],
          ["Priority", of.priority],
          ["If a run is still active", overlaps[of.overlap]],
          ["Event", of.event && <Literal text={of.event} />],
          ["Deduplication key", of.key && <Id value={of.key} whole />],
          ["Concurrency key", of.flight && <Literal text={of.flight} />],
        ]}
      />
      {of.mapped && Object.keys(of.mapped).length > 0 && (
        <div>
          <h2 className="pb-1 text-sm font-semibold">Mapped</h2>
          <LiteralBlock text={JSON.stringify(of.mapped, null, 2)} label="Mapped" />
        </div>
      )}
      {of.prompt && (
        <div>
          <h2 className="pb-1 text-sm font-semibold">Prompt</h2>
          <LiteralBlock text={of.prompt} label="Prompt" />
        </div>
      )}
    </div>
  );
}
