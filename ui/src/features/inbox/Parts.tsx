import { Link } from "@tanstack/react-router";
import { useEffect, useState, type ReactNode } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Literal, LiteralBlock } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { absolute, duration, millis, Time } from "@/components/Time";
import { InboxKind, type CallDecision, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { Earlier } from "./Request";
import { left, nth, unanswered } from "./words";

// Part is one part of a card: a section with a heading.
export function Part(props: { name: string; children: ReactNode; hidden?: boolean }) {
  return (
    <section aria-label={props.name} className="space-y-1">
      {!props.hidden && <h3 className="text-xs font-medium text-dim">{props.name}</h3>}
      {props.children}
    </section>
  );
}

// DangerBand says what is dangerous about a call, and whether it can be undone.
export function DangerBand({ item, of }: { item: InboxItem; of: CallDecision | undefined }) {
  const undo = undoOf(item, of);
  if (!of?.dangers.length) {
    return (
      <Part name="Risk" hidden>
        {undo}
      </Part>
    );
  }
  return (
    <Part name="Risk" hidden>
      <div className="space-y-1 rounded-md border border-bad bg-bad/10 p-2.5">
        <ul className="space-y-1 font-medium text-bad">
          {of.dangers.map((d, i) => (
            <li key={i}>
              Dangerous: <Literal text={d.what || d.kind} />
              {(d.line > 0 || d.command) && (
                <>
                  {" ("}
                  {d.line > 0 && `line ${d.line}`}
                  {d.line > 0 && d.command && ": "}
                  {d.command && <Literal className="font-mono text-xs" text={d.command} />})
                </>
              )}
            </li>
          ))}
        </ul>
        {undo}
      </div>
    </Part>
  );
}

function undoOf(item: InboxItem, of: CallDecision | undefined): ReactNode {
  if (item.kind === InboxKind.QUESTION) return <p className="text-dim">Nothing runs: the agent gets your answer as text.</p>;
  if (item.kind === InboxKind.REVIEW)
    return <p className="text-dim">{item.review?.deferred.length ? "Requests that are sent cannot be undone. File changes can, for 7 days." : "File changes can be undone for 7 days."}</p>;
  if (item.kind === InboxKind.ESCALATION) return <p className="text-dim">Nothing is lost: the files of the task stay as they are.</p>;
  if (of?.irreversible)
    return (
      <p className="text-warn">
        Cannot be undone: <Literal text={of.irreversible} />
      </p>
    );
  if (of?.reversible) return <p className="text-dim">Can be undone for 7 days after the task ends, from the snapshot before it.</p>;
  return <p className="text-dim">Nothing about it is known to be dangerous.</p>;
}

// WhyAsked says who asks, with a link to what makes the hub ask.
export function WhyAsked({ item, of }: { item: InboxItem; of: CallDecision | undefined }) {
  return (
    <Part name="Why you are asked">
      <p className="break-words">{whyOf(item, of)}</p>
    </Part>
  );
}

const personaLink = (item: InboxItem, words: string) => (
  <Link to="/agents/$agent/edit" params={{ agent: item.agentName || item.agentId }} className="text-accent underline">
    {words}
  </Link>
);

function whyOf(item: InboxItem, of: CallDecision | undefined): ReactNode {
  const why = item.why || of?.why;
  const said = why ? (
    <>
      {" "}
      <Literal text={why} />
    </>
  ) : null;
  switch (item.kind) {
    case InboxKind.QUESTION:
      return <>The agent asks, and waits for an answer.</>;
    case InboxKind.REVIEW:
      return <>The run was in review mode: nothing leaves its workspace until somebody accepts it.</>;
    case InboxKind.ESCALATION:
      return <>The task does not go on by itself.</>;
    case InboxKind.UNKNOWN:
      return <>{why ? <Literal text={why} /> : "It is unknown whether the call took effect."}</>;
  }
  switch (of?.source) {
    case "danger":
      return (
        <>
          The call is known to be dangerous, and no policy allows that (<Literal className="font-mono text-xs" text={of.rule} />).
        </>
      );
    case "rule":
      return (
        <>
          The policy{" "}
          <Link to="/settings" className="text-accent underline">
            <Literal text={of.policy || of.policyVersion || "of the organisation"} />
          </Link>
          {of.rule && (
            <>
              , rule <Literal className="font-mono text-xs" text={of.rule} />,
            </>
          )}{" "}
          asks for approval.{said}
        </>
      );
    case "definition":
      return <>The tool of the server is new or has changed: approving the call accepts its definition.{said}</>;
    case "tool":
      return <>Every call of this tool needs approval unless a policy rule allows it.{said}</>;
  }
  return (
    <>
      The agent&apos;s {personaLink(item, "persona")} asks for approval.{why && <> <Literal text={sentence(why)} /></>}
    </>
  );
}

const sentence = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// Wants says what the agent works on and what it said last.
export function Wants({ item }: { item: InboxItem }) {
  const of = item.context;
  return (
    <Part name="Why the agent wants it">
      <dl className="space-y-1">
        <Row name="Goal">
          <Literal className="literal-prose line-clamp-3" text={of?.goal || item.taskTitle || item.taskId} />
        </Row>
        {of?.planItem && (
          <Row name={`Plan, ${of.planDone} of ${of.planItems} done`}>
            <Literal text={of.planItem} />
          </Row>
        )}
        {/* The words of a review, its summary, stand above its changes. */}
        {(item.reasoning || item.kind !== InboxKind.REVIEW) && (
          <Row name="The agent's words">{item.reasoning ? <Words text={item.reasoning} /> : <span className="text-dim">It said nothing before this call.</span>}</Row>
        )}
      </dl>
    </Part>
  );
}

function Row(props: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-dim">{props.name}</dt>
      <dd className="min-w-0 break-words">{props.children}</dd>
    </div>
  );
}

const shortWords = 240;

// Words shows what an agent said, as Markdown: three lines of it, and the rest on
// request.
function Words({ text }: { text: string }) {
  const long = text.length > shortWords || text.split("\n").length > 3;
  const [open, setOpen] = useState(false);
  return (
    <div>
      <div className={cx(long && !open && "line-clamp-3 max-h-16 overflow-hidden")}>
        <Markdown text={text} />
      </div>
      {long && (
        <button type="button" aria-expanded={open} className="min-h-6 text-xs text-accent hover:underline" onClick={() => setOpen(!open)}>
          {open ? "Less" : "More"}
        </button>
      )}
    </div>
  );
}

// Before says what was asked and decided before.
export function Before({ item }: { item: InboxItem }) {
  const of = item.context;
  if (!of) return null;
  const by = of.similarBy === "shape" ? "Calls like this" : "Calls of this tool";
  const last = of.lastRejection;
  return (
    <Part name="Before">
      <p className="break-words">
        {of.asked > 1 ? `${nth(of.asked)} time this task asks.` : "First time this task asks."}{" "}
        {item.kind === InboxKind.APPROVAL &&
          (of.similarApproved + of.similarRejected === 0
            ? `No ${by.toLowerCase()} were decided in the last 30 days.`
            : `${by}, last 30 days: ${of.similarApproved} approved, ${of.similarRejected} rejected.`)}
        {last && (
          <>
            {" "}
            Last rejected by {last.by} <Time at={last.at} />
            {last.reason && (
              <>
                : &ldquo;
                <Literal text={last.reason} />
                &rdquo;
              </>
            )}
          </>
        )}
      </p>
      {item.decision?.request && <Earlier of={of} host={item.decision.request.host} />}
    </Part>
  );
}

// Deadline says what happens if nobody answers, and when. Its last minute is
// amber.
export function Deadline({ item }: { item: InboxItem }) {
  const at = millis(item.expiresAt);
  const now = useTicks(at);
  if (at === undefined) {
    return (
      <Part name="If nobody answers" hidden>
        <p className="text-xs text-dim">If nobody answers, it waits, however long it takes.</p>
      </Part>
    );
  }
  const ms = at - now;
  return (
    <Part name="If nobody answers" hidden>
      <p className={cx("text-xs", ms < 60_000 ? "font-medium text-warn" : "text-dim")}>
        If nobody answers by{" "}
        <time dateTime={new Date(at).toISOString()} title={absolute(at)}>
          {new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })}
        </time>
        : <Literal text={unanswered(item)} /> (<span data-clock>{left(ms)}</span>).
      </p>
    </Part>
  );
}

// useTicks returns the time, each second in the last ten minutes before a time, and
// each ten seconds before.
function useTicks(until: number | undefined): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (until === undefined || until <= now) return undefined;
    const timer = setTimeout(() => setNow(Date.now()), until - now < 600_000 ? 1_000 : 10_000);
    return () => clearTimeout(timer);
  }, [until, now]);
  return now;
}

// Where says where the call runs and what it can reach.
export function Where({ item, of }: { item: InboxItem; of: CallDecision | undefined }) {
  const rows: [string, ReactNode][] = [["Task", <TaskLink key="task" item={item} />]];
  if (of) {
    rows.push(["Runs", of.onMachine && !of.user ? "On the machine itself, not in a jail" : of.nodeId ? <NodeLink key="node" of={of} /> : "In the hub, not on a node"]);
    if (of.folder) rows.push(["Folder", <Literal key="folder" className="font-mono text-xs" text={of.folder} />]);
    if (of.user) rows.push(["User", of.user]);
    rows.push(["Timeout", of.timeoutSeconds > 0 ? (of.timeoutSeconds < 3_600 ? `${of.timeoutSeconds} s` : duration(of.timeoutSeconds * 1000)) : "None"]);
    if (of.nodeId && !of.onMachine)
      rows.push(["Network", of.hosts.length === 0 ? "No hosts can be reached" : <Literal key="hosts" className="font-mono text-xs break-words" text={of.hosts.join(", ")} />]);
    if (of.policyVersion) rows.push(["Policy", <Literal key="policy" text={of.policyVersion} />]);
  }
  return (
    <Part name="Where">
      <dl aria-label="Where it runs" className="grid grid-cols-[5rem_minmax(0,1fr)] items-baseline gap-x-3 gap-y-0.5">
        {rows.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-xs leading-6 text-dim">{name}</dt>
            <dd className="min-w-0 leading-6 break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Part>
  );
}

function TaskLink({ item }: { item: InboxItem }) {
  return (
    <Link to="/tasks/$task" params={{ task: item.taskId }} className="inline-flex min-h-6 flex-wrap items-center text-accent hover:underline">
      <Literal text={item.taskTitle || item.taskId} />
      <span className="whitespace-pre">{item.stepNumber > 0 && ` (step ${item.stepNumber})`}</span>
    </Link>
  );
}

function NodeLink({ of }: { of: CallDecision }) {
  return (
    <>
      {of.onMachine ? <strong className="text-warn">On the machine itself, not in a jail:</strong> : "In a jail on"}{" "}
      <Link to="/nodes/$nodeId" params={{ nodeId: of.nodeId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
        <Literal text={of.nodeName || of.nodeId} />
      </Link>
    </>
  );
}

// Read shows what the hub read in a call: its commands, what could not be understood,
// and what comes with it.
export function Read({ of }: { of: CallDecision }) {
  return (
    <>
      {of.commands.length > 1 && (
        <Part name={`${of.commands.length} commands`}>
          <Commands of={of} />
        </Part>
      )}
      {of.unclear.length > 0 && (
        <Part name="Could not be understood">
          <ul className="list-inside list-disc text-warn">
            {of.unclear.map((u, i) => (
              <li key={i}>
                <Literal text={u} />
              </li>
            ))}
          </ul>
        </Part>
      )}
      {of.definition && (
        <Part name="Definition of the tool">
          <LiteralBlock text={of.definition} label="Definition" />
          {of.agreedDefinition ? (
            <>
              <p className="text-xs text-dim">Accepted before:</p>
              <LiteralBlock text={of.agreedDefinition} label="Agreed definition" />
            </>
          ) : (
            <p className="text-xs text-dim">No definition was accepted before: the tool is new.</p>
          )}
        </Part>
      )}
      {of.program && (
        <Part name="Typed into">
          <LiteralBlock text={of.program} label="The command line of the job" />
        </Part>
      )}
      {of.unsent && (
        <Part name="Typed before and not sent yet">
          <LiteralBlock text={of.unsent} label="What was typed before and not sent yet" />
        </Part>
      )}
    </>
  );
}

const effects: Record<string, string> = { allow: "allowed", ask: "needs approval", deny: "denied" };

function Commands({ of }: { of: CallDecision }) {
  const [all, setAll] = useState(false);
  const most = 8;
  const shown = all ? of.commands : of.commands.slice(0, most);
  return (
    <>
      <ol className="space-y-0.5" aria-label="Commands">
        {shown.map((c, i) => {
          const danger = of.dangers.some((d) => d.line === c.line && d.command.includes(c.text.slice(0, 40)));
          return (
            <li key={i} className="flex gap-2">
              <span className="w-6 shrink-0 text-right text-xs leading-5 text-dim">{i + 1}</span>
              <span className="min-w-0">
                <Literal className={cx("font-mono text-xs break-words", danger && "text-bad")} text={c.text} />
                <span className="text-xs text-dim">
                  {" "}
                  line {c.line}
                  {c.via.length > 0 && (
                    <>
                      , via <Literal text={c.via.join(" → ")} />
                    </>
                  )}
                  {c.effect && `, ${effects[c.effect] ?? c.effect}`}
                </span>
              </span>
            </li>
          );
        })}
      </ol>
      {of.commands.length > most && (
        <Button small onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${of.commands.length}`}
        </Button>
      )}
    </>
  );
}

// dangersByLine are the dangers of a script by their line, for the script itself.
export function dangersByLine(of: CallDecision | undefined): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  for (const d of of?.dangers ?? []) {
    if (d.line > 0) found.set(d.line, [found.get(d.line), d.what || d.kind].filter(Boolean).join("; "));
  }
  return found;
}
