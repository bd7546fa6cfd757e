import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { DiffRows, type DiffRow } from "@/components/Diff";
import { Literal } from "@/components/Literal";
import { dollars } from "@/components/money";
import { InboxKind, type InboxItem, type InboxStop } from "@/gen/deckhand/v1/inbox_pb";
import { amount, budgetName, hostOf, limitWord } from "./words";

// StopDetails shows what keeps work from going on: why it stopped, and how many tasks
// wait for it. What stopped is the heading of the card.
export function StopDetails({ item, stop }: { item: InboxItem; stop: InboxStop }) {
  return (
    <div className="space-y-3">
      {item.why && item.kind !== InboxKind.BUDGET && (
        <p className="break-words text-dim">
          <Literal text={item.why} />
        </p>
      )}
      <About item={item} stop={stop} />
      {stop.waitingTasks > 0 && (
        <p>{stop.waitingTasks === 1 ? "1 paused task waits for it." : `${stop.waitingTasks} paused tasks wait for it.`}</p>
      )}
    </div>
  );
}

function About({ item, stop }: { item: InboxItem; stop: InboxStop }) {
  switch (item.kind) {
    case InboxKind.LIMIT:
      return (
        <Facts>
          <Fact name="Limit">
            {amount(stop.limitName, stop.limitMost)} {stop.limitName === "cost_usd" || stop.limitName === "active_time" ? `(${limitWord(stop.limitName)})` : limitWord(stop.limitName)}
          </Fact>
        </Facts>
      );
    case InboxKind.BUDGET:
      return (
        <Facts>
          <Fact name="Budget">
            <Literal text={budgetName(stop)} />
          </Fact>
          <Fact name="Spent">
            {dollars(stop.spentMicros)} of {dollars(stop.limitMicros)}
          </Fact>
          <Fact name="Next call">may cost {dollars(stop.amountMicros)}</Fact>
        </Facts>
      );
    case InboxKind.EGRESS:
      return <Egress stop={stop} />;
    default:
      return null;
  }
}

function Egress({ stop }: { stop: InboxStop }) {
  const change = stop.change;
  return (
    <>
      <p className="font-mono text-base break-all">
        <Literal text={hostOf(stop)} />
      </p>
      <Facts>
        {stop.tool && (
          <Fact name="Command">
            a call of <Literal className="font-mono" text={stop.tool} />
            {stop.method && (
              <>
                {" "}
                (<Literal text={stop.method} />)
              </>
            )}
          </Fact>
        )}
      </Facts>
      {change?.diff && (
        <section aria-label="Change of the persona" className="space-y-1">
          <h3 className="text-xs text-dim">Version {change.version + 1} of the persona would be</h3>
          <DiffRows rows={rowsOf(change.diff)} label="Change of the persona" />
        </section>
      )}
      {change?.problem && (
        <p role="note" className="text-warn">
          <Literal text={change.problem} />
        </p>
      )}
    </>
  );
}

const Facts = (p: { children: ReactNode }) => <dl className="grid grid-cols-[max-content_minmax(0,1fr)] gap-x-4 gap-y-1">{p.children}</dl>;

const Fact = (p: { name: string; children: ReactNode }) => (
  <>
    <dt className="text-dim">{p.name}</dt>
    <dd className="min-w-0 break-words">{p.children}</dd>
  </>
);

// rowsOf reads the lines of a unified diff of one file.
export function rowsOf(diff: string): DiffRow[] {
  const out: DiffRow[] = [];
  let before = 0;
  let after = 0;
  for (const text of diff.replace(/\n$/, "").split("\n").slice(2)) {
    const at = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (at) {
      before = Number(at[1]);
      after = Number(at[2]);
      out.push({ sign: "@", text });
    } else if (text.startsWith("+")) out.push({ sign: "+", text: text.slice(1), after: after++ });
    else if (text.startsWith("-")) out.push({ sign: "-", text: text.slice(1), before: before++ });
    else if (text.startsWith("\\")) out.push({ sign: "@", text });
    else out.push({ sign: " ", text: text.slice(1), before: before++, after: after++ });
  }
  return out;
}

// Pages where the cause is removed.
export function StopLink({ item, stop }: { item: InboxItem; stop: InboxStop }) {
  const look = "inline-flex min-h-8 items-center text-accent hover:underline";
  if (item.kind === InboxKind.PROVIDER)
    return (
      <Link to="/providers" className={look}>
        {stop.reason === "not_connected" ? "Connect" : stop.reason === "outage" ? "See" : "Give a new key for"} {stop.provider}
      </Link>
    );
  if (item.kind === InboxKind.CREDENTIAL)
    return (
      <Link to="/credentials" className={look}>
        Give credential {stop.credential} a new value
      </Link>
    );
  if (item.kind === InboxKind.BUDGET)
    return (
      <Link to="/budgets" className={look}>
        All budgets
      </Link>
    );
  return null;
}
