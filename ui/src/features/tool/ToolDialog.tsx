import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { keepPreviousData } from "@tanstack/react-query";
import { Button } from "@/components/Button";
import { Code } from "@/components/Code";
import { Dialog } from "@/components/Dialog";
import { Field, TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Facts } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Effect } from "@/features/policy/effect";
import { ToolService } from "@/gen/deckhand/v1/tool_pb";
import { kindWord } from "./search";
import { asksOf, categoryOf, placeOf, takes, undoOf } from "./words";

// ToolDialog shows one tool with its schema, and lets a person try what a call of it would
// get from an agent. The call is not made.
export function ToolDialog(props: { name: string; agent: string; onClose: () => void }) {
  const [draft, setDraft] = useState<string>();
  const [tried, setTried] = useState("");
  const found = useQuery(ToolService.method.getTool, { name: props.name, agentId: props.agent, argumentsJson: tried }, { placeholderData: keepPreviousData, retry: false });
  const entry = found.data?.tool;
  const tool = entry?.tool;
  return (
    <Dialog open wide title={props.name} onClose={props.onClose}>
      {found.isPending && <Skeletons rows={6} />}
      {tool && (
        <>
          <Literal className="block" text={tool.description} />
          <Facts
            of={[
              ["Kind", kindWord(tool.kind)],
              ["Category", categoryOf(entry)],
              ["Least role", entry.roleCovers ? tool.leastRole : `${tool.leastRole}: more than yours`],
              ["Asks a person", asksOf(tool)],
              ["Runs", placeOf(tool)],
              ["Takes", takes(tool.expectedDuration?.seconds)],
              ["Timeout", takes(tool.timeout?.seconds)],
              ["May be retried", tool.retryable ? "yes" : "no"],
              ["Idempotent", tool.idempotent ? "yes" : "no"],
              ["Undo restores", undoOf(tool)],
            ]}
          />
          {props.agent && (
            <section aria-label="Try a call" className="space-y-2">
              <Field label={`Arguments of a call by ${props.agent}`} hint="The call is not made.">
                <TextArea rows={5} spellCheck={false} className="font-mono text-xs" value={draft ?? entry.argumentsJson} onChange={(e) => setDraft(e.target.value)} />
              </Field>
              <Button busy={found.isFetching} onClick={() => setTried(draft ?? entry.argumentsJson)}>
                Try
              </Button>
              {!found.error && entry.use && (
                <p aria-live="polite" className="break-words">
                  <Effect of={entry.use.effect} /> {entry.use.decision?.rule && <>by the rule <strong>{entry.use.decision.rule}</strong></>}
                  {entry.use.why && <span className="block pt-1 text-dim">{entry.use.why}</span>}
                </p>
              )}
            </section>
          )}
          <div>
            <h3 className="pb-1 text-xs text-dim">Schema of the arguments</h3>
            <Code label={`Schema of ${tool.name}`} language="json" text={JSON.stringify(tool.inputSchema ?? {}, null, 2)} />
          </div>
        </>
      )}
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
    </Dialog>
  );
}
