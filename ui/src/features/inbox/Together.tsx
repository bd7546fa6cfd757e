import { createClient } from "@connectrpc/connect";
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { createQueryOptions, useTransport } from "@connectrpc/connect-query";
import { useRef, useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Field";
import { Literal, LiteralBlock } from "@/components/Literal";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { ReadingContext, useReading } from "@/components/reading";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { proven } from "@/features/passkey/prove";
import { InboxService, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { alone, differences } from "./alike";
import { useWholeArguments } from "./arguments";
import { DangerBand, Read, Where, WhyAsked } from "./Parts";
import { Thing } from "./Thing";
import { useGuard } from "./guard";

const inbox = createClient(InboxService, transport);

type Outcome = { id: string; words: string; error?: unknown };

// Together decides several calls after one look: the first is shown whole, and of each
// other one all that differs from it. Each is answered with the digest of what was shown.
// What cannot be shown so is left out, and decided by itself.
export function Together(props: { ids: readonly string[]; open: (id: string) => void; close: () => void }) {
  const using = useTransport();
  const loaded = useQueries({
    queries: props.ids.map((itemId) => createQueryOptions(InboxService.method.getInboxItem, { itemId }, { transport: using })),
  });
  // What is shown stays as it is, whatever comes of the items meanwhile.
  const shown = useRef<InboxItem[]>(undefined);
  if (!shown.current && loaded.every((q) => q.data?.item)) shown.current = loaded.map((q) => q.data!.item!);
  const failed = loaded.find((q) => q.error && !q.data);
  if (failed) return <Problem error={failed.error} retry={() => void failed.refetch()} />;
  if (!shown.current) return <Skeletons rows={4} />;
  return <Shown items={shown.current} open={props.open} close={props.close} />;
}

function Shown(props: { items: InboxItem[]; open: (id: string) => void; close: () => void }) {
  const queries = useQueryClient();
  const box = useRef<HTMLDivElement>(null);
  const guard = useGuard(box);
  const reading = useReading();
  const [busy, setBusy] = useState("");
  const [reason, setReason] = useState("");
  const [done, setDone] = useState<Outcome[]>();
  const first = props.items.find((i) => alone(i, i) === undefined) ?? props.items[0]!;
  const apart = props.items.flatMap((i) => {
    const why = alone(i, first);
    return why ? [{ item: i, why }] : [];
  });
  const together = props.items.filter((i) => alone(i, first) === undefined);
  const rest = together.filter((i) => i.id !== first.id);
  const give = async (verdict: "approve" | "reject") => {
    if (busy || !guard.isReady()) return;
    setBusy(verdict);
    const out: Outcome[] = [];
    for (const item of together) {
      try {
        const answer = verdict === "approve" ? { case: "approve" as const, value: {} } : { case: "reject" as const, value: {} };
        await inbox.answerInboxItem(await proven({ itemId: item.id, reason: reason.trim(), shownDigest: item.shownDigest, answer }, item.needsPasskey));
        out.push({ id: item.id, words: verdict === "approve" ? "Approved" : "Rejected" });
      } catch (error) {
        out.push({ id: item.id, words: "Not answered", error });
      }
    }
    setDone(out);
    setBusy("");
    void queries.invalidateQueries();
  };
  const outcome = (id: string) => done?.find((d) => d.id === id);
  return (
    <div ref={box} className="space-y-4">
      <header className="flex flex-wrap items-center gap-3">
        <h2 className="min-w-0 flex-1 text-base font-semibold">{together.length === 1 ? "1 call" : `${together.length} calls together`}</h2>
        <Button onClick={props.close}>Back to the list</Button>
      </header>
      <ReadingContext value={reading.report}>
        <section aria-label="The first call" className="space-y-2 rounded-md border p-3">
          <h3 className="font-medium">
            <Literal text={first.title} />
          </h3>
          <p className="text-xs text-dim">
            {first.agentName} · <Literal text={first.taskTitle} /> · asked <Time at={first.askedAt} />
          </p>
          <First item={first} />
          <Result of={outcome(first.id)} />
        </section>
        {rest.length > 0 && (
          <section aria-label="The others" className="space-y-2">
            <h3 className="text-sm text-dim">The others are the same as the first call, except for:</h3>
            {rest.map((item) => (
              <article key={item.id} className="space-y-1 rounded-md border p-3">
                <p className="text-xs text-dim">
                  <Literal text={item.taskTitle} /> · asked <Time at={item.askedAt} />
                </p>
                <Differences item={item} first={first} />
                <Result of={outcome(item.id)} />
              </article>
            ))}
          </section>
        )}
        {apart.length > 0 && (
          <section aria-label="Left out" className="space-y-1">
            <h3 className="text-sm text-warn">Not decided here:</h3>
            <ul>
              {apart.map(({ item, why }) => (
                <li key={item.id} className="flex flex-wrap items-center gap-2">
                  <button type="button" className="min-h-8 max-w-full truncate text-accent hover:underline" onClick={() => props.open(item.id)}>
                    <Literal text={item.title || item.taskTitle || item.id} />
                  </button>
                  <span className="text-dim">{why}</span>
                </li>
              ))}
            </ul>
          </section>
        )}
      </ReadingContext>
      {!done && together.length > 0 && (
        <div data-answers className="space-y-2">
          <Field label="Reason" hint="For all of them. Agents see the reason of a rejection.">
            <Input value={reason} maxLength={4000} onChange={(e) => setReason(e.target.value)} />
          </Field>
          {reading.pending.length > 0 && (
            <p role="note" className="text-warn">
              You can approve when you have seen all of it: {reading.pending.map((p) => p.label).join("; ")}.
            </p>
          )}
          <fieldset disabled={!guard.ready} className="flex flex-wrap gap-2">
            <Button disabled={reading.pending.length > 0} busy={busy === "approve"} onClick={() => void give("approve")}>
              Approve {together.length === 1 ? "it" : `all ${together.length}`}
            </Button>
            <Button busy={busy === "reject"} onClick={() => void give("reject")}>
              Reject {together.length === 1 ? "it" : `all ${together.length}`}
            </Button>
          </fieldset>
        </div>
      )}
    </div>
  );
}

function First({ item }: { item: InboxItem }) {
  const whole = useWholeArguments(item);
  return (
    <div className="space-y-3">
      <DangerBand item={item} of={whole.decision} />
      <Thing item={item} whole={whole} />
      {whole.decision && <Read of={whole.decision} />}
      <WhyAsked item={item} of={whole.decision} />
      <Where item={item} of={whole.decision} />
    </div>
  );
}

function Differences({ item, first }: { item: InboxItem; first: InboxItem }) {
  const all = differences(item, first);
  if (all.length === 0) return <p>Nothing: the same call.</p>;
  return (
    <dl className="space-y-1">
      {all.map((d) => (
        <div key={d.at}>
          <dt className="font-mono text-xs text-dim">
            <Literal text={d.at} />
          </dt>
          <dd>{d.text === undefined ? <span className="text-dim">not given</span> : <LiteralBlock text={d.text} label={line(`${d.at} of ${item.id}`)} />}</dd>
        </div>
      ))}
    </dl>
  );
}

function Result({ of }: { of: Outcome | undefined }) {
  if (!of) return null;
  return of.error === undefined ? (
    <p role="status" className="text-good">
      {of.words}
    </p>
  ) : (
    <Problem error={of.error} />
  );
}
