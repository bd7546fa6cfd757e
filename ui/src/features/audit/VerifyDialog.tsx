import { createClient } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Command } from "@/components/Command";
import { Dialog } from "@/components/Dialog";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { AuditService, AuditVerdict, type AuditBreak, type AuditVerification, type VerifyAuditResponse } from "@/gen/deckhand/v1/control_pb";

const audit = createClient(AuditService, transport);
const number = (n: bigint) => n.toLocaleString();
const counted = (n: bigint, one: string, many: string) => `${number(n)} ${n === 1n ? one : many}`;

// VerifyDialog has the hub verify the whole audit log, shows how far it is, and what
// came of it. Closing it ends the verification. onDone is called when there is a result,
// which the hub records in the log.
export function VerifyDialog(props: { onClose: () => void; onDone: () => void }) {
  const [run, setRun] = useState(0);
  const [at, setAt] = useState<VerifyAuditResponse>();
  const [error, setError] = useState<unknown>();
  const { onDone } = props;
  useEffect(() => {
    const own = new AbortController();
    setAt(undefined);
    setError(undefined);
    void (async () => {
      try {
        for await (const res of audit.verifyAudit({}, { signal: own.signal })) {
          setAt(res);
          if (res.result) onDone();
        }
      } catch (e) {
        if (!own.signal.aborted) setError(e);
      }
    })();
    return () => own.abort();
  }, [run, onDone]);
  const result = at?.result;
  return (
    <Dialog
      open
      title="Verify audit log"
      onClose={props.onClose}
      footer={
        <>
          {(result || error !== undefined) && <Button onClick={() => setRun(run + 1)}>Verify again</Button>}
          <Button onClick={props.onClose}>{result || error !== undefined ? "Close" : "Cancel"}</Button>
        </>
      }
    >
      {error !== undefined ? (
        <Problem error={error} />
      ) : result ? (
        <Result result={result} />
      ) : (
        <div role="status" className="space-y-2">
          <p>{at ? `Verified to entry ${number(at.position)} of ${number(at.lastPosition)}…` : "Verifying from the first entry…"}</p>
          <progress className="w-full" aria-label="Entries verified" value={at && Number(at.position)} max={at && Number(at.lastPosition)} />
        </div>
      )}
      <div className="space-y-2 border-t pt-3 text-xs text-dim">
        <p>
          The hub checks its own database here, with its own key. That finds entries that were changed, removed or added behind its back. It does not
          find a log that somebody who controls the hub signed again, or newest entries that were removed together with their signatures. For that,
          export the log regularly, keep it elsewhere, and verify it there with the key that you noted when you set up the hub:
        </p>
        <Command text="deckhand audit verify audit.jsonl --key KEY" />
      </div>
    </Dialog>
  );
}

const headings: Record<AuditVerdict, [text: string, tone: string]> = {
  [AuditVerdict.UNSPECIFIED]: ["The hub gave no verdict.", "text-warn"],
  [AuditVerdict.INTACT]: ["Intact: every entry is as it was sealed.", "text-good"],
  [AuditVerdict.BROKEN]: ["Broken: part of the log is not what was sealed.", "text-bad"],
  [AuditVerdict.UNFINISHED]: ["Not finished: the ten minutes were up. Nothing broken was found so far.", "text-warn"],
};

// Result says what was checked, up to which entry, and what is broken.
function Result({ result }: { result: AuditVerification }) {
  const [heading, tone] = headings[result.verdict] ?? headings[AuditVerdict.UNSPECIFIED];
  return (
    <div role="status" className="space-y-3">
      <p className={`font-semibold ${tone}`}>{heading}</p>
      {result.breaks.length > 0 && (
        <ul aria-label="Broken parts" className="space-y-2">
          {result.breaks.map((b, i) => (
            <li key={i} className="rounded border border-bad/50 p-2">
              <div className="font-medium">{where(b)}</div>
              <div className="text-sm break-words text-dim">
                <Literal text={b.problem} />
              </div>
            </li>
          ))}
        </ul>
      )}
      {result.moreBreaks && <p>The check stopped at entry {number(result.position)}: behind it, more can be broken.</p>}
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-sm">
        <dt className="text-dim">Checked</dt>
        <dd>{result.position > 0n ? `Entries 1 to ${number(result.position)}` : "No entry is sealed yet"}</dd>
        <dt className="text-dim">As sealed</dt>
        <dd>
          {counted(result.entries, "entry", "entries")}, {counted(result.heads, "signature", "signatures")}
          {result.proofs > 0n && `, ${counted(result.proofs, "proof by a passkey", "proofs by passkeys")}`}
        </dd>
        {result.unsealed > 0n && (
          <>
            <dt className="text-dim">Not checked</dt>
            <dd>{counted(result.unsealed, "new entry", "new entries")} not sealed yet</dd>
          </>
        )}
        <dt className="text-dim">Public key</dt>
        <dd className="font-mono text-xs break-all">{result.key}</dd>
      </dl>
    </div>
  );
}

function where(b: AuditBreak): string {
  if (b.firstPosition === 0n) return "Entries outside of the chain";
  return b.firstPosition === b.lastPosition ? `Entry ${number(b.firstPosition)}` : `Between entries ${number(b.firstPosition)} and ${number(b.lastPosition)}`;
}
