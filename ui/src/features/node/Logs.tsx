import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { Badge, type Tone } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { MachineService, type GetMachineResponse, type JournalEntry } from "@/gen/deckhand/v1/machine_pb";

const tones: Record<string, Tone> = { error: "bad", warn: "warn" };

// isPattern reports whether a unit's name of the operator's list stands for several.
const isPattern = (unit: string) => /[*?]/.test(unit);

// Logs shows the log of the node's daemon, and the journal of the units that its operator shows.
// Each read is audited and runs a program on the machine: it reads when it is asked to, not
// while somebody looks at something else or types.
export function Logs({ nodeId, machine }: { nodeId: string; machine: GetMachineResponse }) {
  const [chosen, setChosen] = useState("");
  const [typed, setTyped] = useState("");
  const [grep, setGrep] = useState("");
  const [asked, setAsked] = useState<{ unit: string; grep: string }>();
  const list = useInfiniteQuery(
    MachineService.method.readJournal,
    { nodeId, ...(asked ?? { unit: "", grep: "" }), pageSize: 200, pageToken: "" },
    { ...byToken, retry: false, enabled: asked !== undefined },
  );
  // Each page is oldest first, and the first page is the newest.
  const entries = list.data?.pages.toReversed().flatMap((page) => page.entries) ?? [];
  return (
    <Section
      title="Logs"
      actions={
        asked && (
          <Button small busy={list.isRefetching} onClick={() => void list.refetch()}>
            Refresh
          </Button>
        )
      }
    >
      <form
        className="flex flex-wrap items-end gap-3 pb-2"
        onSubmit={(e) => {
          e.preventDefault();
          const unit = isPattern(chosen) ? typed.trim() : chosen;
          if (unit !== "" || !isPattern(chosen)) setAsked({ unit, grep: grep.trim() });
        }}
      >
        <Field label="Log">
          <Select value={chosen} onChange={(e) => setChosen(e.target.value)}>
            <option value="">deckhand-node (since its start)</option>
            {machine.journalUnits.map((u) => (
              <option key={u} value={u}>
                {line(u)}
              </option>
            ))}
          </Select>
        </Field>
        {isPattern(chosen) && (
          <Field label="Unit" hint={`A name like ${line(chosen)}.`}>
            <Input value={typed} onChange={(e) => setTyped(e.target.value)} autoComplete="off" maxLength={256} required />
          </Field>
        )}
        <Field label="Message matches">
          <Input placeholder="Regular expression" value={grep} onChange={(e) => setGrep(e.target.value)} autoComplete="off" maxLength={1000} />
        </Field>
        <Button type="submit">Show</Button>
      </form>
      {!asked ? (
        <p className="text-dim">Show reads the log from the machine. Each read is in the audit log.</p>
      ) : list.isPending ? (
        <Skeletons rows={4} className="h-5 w-full" />
      ) : list.error && entries.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : entries.length === 0 ? (
        <p className="text-dim">{asked.grep ? "No entries match." : "No entries."}</p>
      ) : (
        <div className="max-h-[60vh] overflow-y-auto rounded border bg-panel p-2" role="region" aria-label="Log entries" tabIndex={0}>
          <More pages={list}>Load older</More>
          <ol className="space-y-0.5 font-mono text-xs">
            {entries.map((e) => (
              <Entry key={e.cursor} of={e} />
            ))}
          </ol>
        </div>
      )}
    </Section>
  );
}

function Entry({ of }: { of: JournalEntry }) {
  const { level = "", component = "", node_id: _, ...rest } = of.fields;
  const more = Object.entries(rest)
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");
  return (
    <li className="flex flex-wrap gap-x-2">
      <span className="text-dim">
        <Time at={of.time} />
      </span>
      {level && <Badge tone={tones[level] ?? "neutral"}>{line(level)}</Badge>}
      {component && (
        <span className="text-dim">
          <Literal text={component} />
        </span>
      )}
      <Literal className="min-w-0 break-all" text={of.message} />
      {of.cut && <span className="text-dim">(cut)</span>}
      {more && (
        <span className="min-w-0 break-all text-dim">
          <Literal text={more} />
        </span>
      )}
    </li>
  );
}
