import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Literal, LiteralBlock } from "@/components/Literal";
import type { CallDecision } from "@/gen/deckhand/v1/inbox_pb";

const effects: Record<string, string> = { allow: "allowed", ask: "needs approval", deny: "denied" };

// DecisionRows is what the hub decided about a call, what it read in it, and
// where it would run, row by row.
export function DecisionRows({ of }: { of: CallDecision }) {
  const rows: [name: string, value: ReactNode][] = [
    ["Dangers", of.dangers.length > 0 && <Dangers of={of} />],
    ["Cannot be undone", of.irreversible && <Literal text={of.irreversible} />],
    ["Rule", of.rule ? <Literal className="font-mono text-xs" text={of.rule} /> : "None: the persona or the tool's category asks for approval"],
    ["Policy version", of.policyVersion ? <Literal text={of.policyVersion} /> : "None: no policy is active"],
    ["Reason", of.why && <Literal text={of.why} />],
    ["Definition", of.definition && <LiteralBlock text={of.definition} label="Definition" />],
    ["Agreed definition", of.definition && (of.agreedDefinition ? <LiteralBlock text={of.agreedDefinition} label="Agreed definition" /> : "None: the tool is new")],
    ["Typed into", of.program && <LiteralBlock text={of.program} label="The command line of the job" />],
    ["Typed behind", of.unsent && <LiteralBlock text={of.unsent} label="What was typed before and not sent yet" />],
    ["Commands", of.commands.length > 0 && <Commands of={of} />],
    [
      "Could not be analysed",
      of.unclear.length > 0 && (
        <ul className="list-inside list-disc text-warn">
          {of.unclear.map((u, i) => (
            <li key={i}>
              <Literal text={u} />
            </li>
          ))}
        </ul>
      ),
    ],
    ["Node", of.nodeId ? <Node of={of} /> : "None: the hub runs this call"],
    ["Folder", of.folder && <Literal className="font-mono text-xs" text={of.folder} />],
    ["User", of.user && <Literal className="font-mono text-xs" text={of.user} />],
    ["Timeout", of.timeoutSeconds > 0 ? `${of.timeoutSeconds} s` : "None"],
    [
      "Reachable hosts",
      of.hosts.length === 0 ? (
        "None"
      ) : (
        <ul className="font-mono text-xs">
          {of.hosts.map((h) => (
            <li key={h}>
              <Literal text={h} />
            </li>
          ))}
        </ul>
      ),
    ],
  ];
  return (
    <dl aria-label="Decision" className="grid grid-cols-[9rem_minmax(0,1fr)] gap-x-3 gap-y-1 max-sm:grid-cols-1">
      {rows
        .filter(([, value]) => value !== false && value !== "")
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-xs leading-5 text-dim">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Node({ of }: { of: CallDecision }) {
  return (
    <Link to="/nodes/$nodeId" params={{ nodeId: of.nodeId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
      <Literal text={of.nodeName || of.nodeId} />
    </Link>
  );
}

function Dangers({ of }: { of: CallDecision }) {
  return (
    <ul className="space-y-1 font-medium text-bad">
      {of.dangers.map((d, i) => (
        <li key={i}>
          <Literal text={d.what || d.kind} />
          {d.line > 0 && ` (line ${d.line})`}
          {d.command && (
            <>
              {": "}
              <Literal className="font-mono text-xs" text={d.command} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

function Commands({ of }: { of: CallDecision }) {
  return (
    <ol className="max-h-60 space-y-0.5 overflow-y-auto" tabIndex={0} aria-label="Commands">
      {of.commands.map((c, i) => (
        <li key={i}>
          <Literal className="font-mono text-xs" text={c.text} />
          <span className="text-xs text-dim">
            {" "}
            line {c.line}
            {c.via.length > 0 && (
              <>
                ; via <Literal text={c.via.join(", ")} />
              </>
            )}
            {c.effect && `, ${effects[c.effect] ?? c.effect}`}
          </span>
        </li>
      ))}
    </ol>
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
