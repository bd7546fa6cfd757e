import { createClient } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Literal } from "@/components/Literal";
import { argumentsOf } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { InboxService, type InboxItem, type JudgeInboxItemResponse } from "@/gen/deckhand/v1/inbox_pb";
import { FileCall, fileTools } from "./FileCall";
import { DangerBand, Read } from "./Parts";

const inbox = createClient(InboxService, transport);

// How long the hub is not asked about a call that is being edited, in milliseconds.
const typing = 400;

// Approve sends the arguments that were judged, and what they were judged as.
export type Approve = (argumentsJson: string, judgedDigest: string, dangerous: boolean, passkey: boolean) => void;

// ApproveEdited shows what the hub decides about a call with other arguments, and
// approves it as it was judged, and not before.
export function ApproveEdited(props: {
  item: InboxItem;
  // The arguments, as JSON; what cannot be sent is invalid.
  text: string;
  invalid: boolean;
  label: string;
  busy: boolean;
  disabled: boolean;
  onApprove: Approve;
  onBack: () => void;
}) {
  const { item, text, invalid } = props;
  const [judged, setJudged] = useState<{ of: string; res: JudgeInboxItemResponse }>();
  const [error, setError] = useState<{ of: string; error: unknown }>();
  // The text of the dangerous call that the person is asked about a second time.
  const [sure, setSure] = useState<string>();
  useEffect(() => {
    if (invalid) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      inbox
        .judgeInboxItem({ itemId: item.id, argumentsJson: text }, { signal: abort.signal })
        .then((res) => (setJudged({ of: text, res }), setError(undefined)))
        .catch((e: unknown) => abort.signal.aborted || setError({ of: text, error: e }));
    }, typing);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [item.id, text, invalid]);
  const now = judged?.of === text ? judged.res : undefined;
  const denied = now?.decision?.effect === "deny";
  const dangerous = (now?.decision?.dangers.length ?? 0) > 0;
  const asking = dangerous && sure === text;
  return (
    <>
      <div role="status" className="space-y-2">
        {invalid ? null : error?.of === text ? (
          <Problem error={error.error} />
        ) : !now ? (
          <p className="text-dim">Checking the edited call…</p>
        ) : (
          <>
            <p className={denied ? "text-bad" : undefined}>
              Your call: <Literal text={now.sentence} />. The policies{" "}
              {denied ? "deny it: it cannot be approved." : now.decision?.effect === "allow" ? "allow it." : now.decision?.effect === "ask" ? "ask for approval." : "have no rule for it."}
              {now.decision?.why && denied && (
                <>
                  {" "}
                  <Literal text={now.decision.why} />
                </>
              )}
            </p>
            <DangerBand item={item} of={now.decision} />
            {now.decision && <Read of={now.decision} />}
            {fileTools.has(item.tool) && (
              <FileCall item={{ changes: now.changes, changesUnknown: now.changesUnknown, changesAt: undefined }} args={argumentsOf({})} />
            )}
          </>
        )}
      </div>
      {now?.decision?.passkey && <p>Approving the edited call takes your passkey.</p>}
      {asking && <p className="font-medium text-bad">This approves a dangerous call.</p>}
      <div className="flex flex-wrap gap-2">
        <Button
          look={dangerous ? "danger" : "primary"}
          disabled={!now || invalid || denied || props.disabled}
          busy={props.busy}
          onClick={() => {
            if (!now) return;
            if (dangerous && !asking) setSure(text);
            else props.onApprove(text, now.judgedDigest, dangerous, now.decision?.passkey ?? false);
          }}
        >
          {asking ? "Yes, approve the dangerous call" : dangerous ? "Approve the edited, dangerous call" : props.label}
        </Button>
        <Button onClick={props.onBack}>Back</Button>
      </div>
    </>
  );
}
