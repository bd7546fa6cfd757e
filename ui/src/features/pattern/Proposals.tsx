import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Literal, Prose } from "@/components/Literal";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { FeedbackService, type Proposal } from "@/gen/deckhand/v1/feedback_pb";
import { MemoryService } from "@/gen/deckhand/v1/memory_pb";
import { PatternService } from "@/gen/deckhand/v1/pattern_pb";

const feedback = createClient(FeedbackService, transport);

// Proposals are the corrections that somebody has still to accept; nothing if there are none.
export function Proposals() {
  const { data } = useQuery(FeedbackService.method.listProposals, { state: "open" });
  const [busy, setBusy] = useState("");
  const refresh = useRefresh(FeedbackService);
  const patterns = useRefresh(PatternService);
  const memories = useRefresh(MemoryService);
  if (!data || data.proposals.length === 0) return null;
  const decide = async (p: Proposal, accept: boolean, asMemory = false) => {
    setBusy(p.id);
    try {
      await feedback.decideProposal({ proposalId: p.id, accept, asMemory });
      await Promise.all([refresh(), patterns(), memories()]);
      toast.success(asMemory ? "Added to your memory." : accept ? "Added to the pattern." : "Refused.");
    } catch (e) {
      showError(e);
    }
    setBusy("");
  };
  return (
    <Section title="Proposed corrections">
      <Table label="Proposed corrections" head={["Correction", "For", "By", "Proposed", ""]}>
        {data.proposals.map((p) => (
          <Row key={p.id}>
            <Cell>
              <Prose text={p.note} className="whitespace-pre-wrap" />
            </Cell>
            <Cell>
              {p.patternId ? (
                <Link to="/patterns/$pattern" params={{ pattern: p.patternId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
                  <Literal text={p.patternTitle || p.patternId} />
                </Link>
              ) : (
                <>
                  a new pattern of{" "}
                  <Link to="/tasks/$task" params={{ task: p.taskId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
                    this task
                  </Link>
                </>
              )}
            </Cell>
            <Cell>{p.proposedBy}</Cell>
            <Cell>
              <Time at={p.createdAt} />
            </Cell>
            <Cell>
              {p.mayDecide ? (
                <div className="flex flex-wrap gap-1">
                  <Button small look="primary" busy={busy === p.id} onClick={() => void decide(p, true)}>
                    Accept
                  </Button>
                  <Button small disabled={busy !== ""} onClick={() => void decide(p, true, true)}>
                    Accept into my memory
                  </Button>
                  <Button small disabled={busy !== ""} onClick={() => void decide(p, false)}>
                    Refuse
                  </Button>
                </div>
              ) : (
                <span className="text-dim">{p.owner} decides</span>
              )}
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
  );
}
