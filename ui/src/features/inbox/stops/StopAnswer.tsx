import { createClient } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Field";
import { line } from "@/components/marks";
import { dollars } from "@/components/money";
import { Problem } from "@/components/Problem";
import type { Progress } from "@/components/reading";
import { may } from "@/features/session/queries";
import { InboxKind, InboxService, type AnswerInboxItemRequestSchema, type InboxItem, type InboxStop } from "@/gen/deckhand/v1/inbox_pb";
import type { Guard } from "../guard";
import { StopLink } from "./StopDetails";
import { hostOf, more, typed } from "./words";

const inbox = createClient(InboxService, transport);
type Given = NonNullable<MessageInitShape<typeof AnswerInboxItemRequestSchema>["answer"]>;

// StopAnswer shows the buttons that answer an item about work that stopped: each says
// what goes on.
export function StopAnswer(props: {
  item: InboxItem;
  stop: InboxStop;
  changed: boolean;
  guard: Guard;
  // The parts that have not been shown completely.
  pending: Progress[];
  onAnswered: (item: InboxItem) => void;
  onRefused: () => Promise<void>;
}) {
  const { item, stop, guard } = props;
  const queries = useQueryClient();
  const session = useSession();
  const admin = may(session, "admin");
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<unknown>();
  const [reason, setReason] = useState("");
  const give = async (answer: Given, words: string) => {
    if (busy || !guard.isReady()) return;
    setBusy(answer.case ?? "");
    setError(undefined);
    try {
      const res = await inbox.answerInboxItem({ itemId: item.id, reason: reason.trim(), answer, shownDigest: item.shownDigest });
      toast(words, { description: line(stop.title) });
      if (res.item) props.onAnswered(res.item);
      void queries.invalidateQueries();
    } catch (e) {
      setError(e);
      await props.onRefused();
      void queries.invalidateQueries();
    } finally {
      setBusy("");
    }
  };
  if (!item.mayAnswer)
    return (
      <div className="space-y-2">
        <p className="text-dim">Your role ({session.role}) cannot answer. Ask an admin{item.kind === InboxKind.EGRESS && ", or the agent's owner"}.</p>
      </div>
    );
  const change = stop.change;
  // What is typed is no answer: its field stays as it is.
  const still = !guard.ready || props.changed;
  const resume = (label: string, words: string) => (
    <Button disabled={still} busy={busy === "resume"} onClick={() => void give({ case: "resume", value: {} }, words)}>
      {label}
    </Button>
  );
  return (
    <div className="space-y-3">
      <Field label="Reason (optional)" hint="Stored in the audit log.">
        <Input value={reason} maxLength={4000} onChange={(e) => setReason(e.target.value)} />
      </Field>
      <div role="group" aria-label="Answers" className="flex flex-wrap items-end gap-2">
        {item.kind === InboxKind.LIMIT && (
          <>
            {admin && <Raise still={still} name={stop.limitName} now={stop.limitMost} offer={stop.limitOffer} label={(to) => more(stop, to)} busy={busy === "raise"} give={(limit) => void give({ case: "raise", value: { limit } }, "The task goes on")} />}
            <Button look="danger" disabled={still} busy={busy === "close"} onClick={() => void give({ case: "close", value: {} }, "Closed")}>
              End the task
            </Button>
          </>
        )}
        {item.kind === InboxKind.BUDGET && (
          <>
            <Raise still={still} name="cost_usd" now={stop.limitMicros} offer={stop.offerMicros} label={(to) => `Raise the budget to ${dollars(to)}`} busy={busy === "raise"} give={(limit) => void give({ case: "raise", value: { limit } }, "The budget is raised, and its tasks go on")} />
            {resume("Try again without raising it", "The tasks try again")}
          </>
        )}
        {item.kind === InboxKind.SUSPENDED && (
          <Button look="primary" disabled={still} busy={busy === "resume"} onClick={() => void give({ case: "resume", value: {} }, "The agent is resumed")}>
            Resume {line(item.agentName)}
          </Button>
        )}
        {item.kind === InboxKind.EGRESS && (
          <Button
            look="primary"
            disabled={still || !change || change.problem !== "" || props.pending.length > 0}
            busy={busy === "allow"}
            onClick={() => void give({ case: "allow", value: {} }, "Allowed")}
          >
            Allow {line(hostOf(stop))} for {line(item.agentName)}
          </Button>
        )}
        {item.kind === InboxKind.PROVIDER && stop.waitingTasks > 0 && resume("Try again", "The tasks try again")}
        <StopLink item={item} stop={stop} />
        {item.kind !== InboxKind.LIMIT && (
          <Button disabled={still} busy={busy === "dismiss"} onClick={() => void give({ case: "dismiss", value: {} }, "Dismissed")}>
            {item.kind === InboxKind.EGRESS ? "Keep it refused" : "Dismiss"}
          </Button>
        )}
      </div>
      {error !== undefined && !props.changed && <Problem error={error} />}
    </div>
  );
}

// Raise is a button that offers a higher limit, with a field for another one. The field
// has the unit that people think in.
function Raise(props: { still: boolean; name: string; now: bigint; offer: bigint; label: (to: bigint) => string; busy: boolean; give: (limit: bigint) => void }) {
  const { factor, unit } = typed(props.name);
  const [text, setText] = useState(() => (props.offer > 0n ? String(Number(props.offer) / factor) : ""));
  const value = Number(text);
  const to = Number.isFinite(value) && value > 0 ? BigInt(Math.round(value * factor)) : 0n;
  const problem = to > props.now ? undefined : `Enter more than ${Number(props.now) / factor}.`;
  return (
    <>
      <div className="w-40">
        <Field label={`New limit (${unit})`} problem={problem}>
          <Input inputMode="decimal" value={text} onChange={(e) => setText(e.target.value)} />
        </Field>
      </div>
      <Button look="primary" disabled={props.still || problem !== undefined} busy={props.busy} onClick={() => props.give(to)}>
        {problem ? "Raise the limit" : props.label(to)}
      </Button>
    </>
  );
}
