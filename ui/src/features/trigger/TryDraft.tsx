import { useMutation, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { absolute, millis } from "@/components/Time";
import { TriggerService } from "@/gen/deckhand/v1/trigger_pb";
import { requestOf, type Draft } from "./draft";
import { Verdict } from "./Verdict";
import { deliveryLooks } from "./words";

// TryDraft tests a trigger before it exists: with a delivery that any trigger received, the
// newest one at first, or with a body of one's own. It starts nothing.
export function TryDraft({ draft }: { draft: Draft }) {
  const recent = useQuery(TriggerService.method.listDeliveries, { pageSize: 50 });
  const stored = recent.data?.deliveries ?? [];
  const [chosen, setChosen] = useState<string>();
  const [body, setBody] = useState('{"hello": "there"}');
  const [event, setEvent] = useState("");
  const test = useMutation(TriggerService.method.testTrigger);
  const payload = draft.kind === "webhook";
  const deliveryId = payload ? (chosen ?? stored[0]?.id ?? "") : "";
  const run = () => {
    const { agentId, kind, preset, spec } = requestOf(draft);
    const custom = { body: new TextEncoder().encode(payload ? body : ""), headers: { "Content-Type": "application/json", ...eventHeader(draft.sender, event.trim()) } };
    test.mutate({ agentId, kind, preset, spec, ...(deliveryId ? { deliveryId } : custom) });
  };
  return (
    <section aria-label="Test before creating" className="space-y-3 rounded-md border p-3">
      <h2 className="text-sm font-semibold">Test before creating</h2>
      {payload && (
        <Field label="Test delivery" hint="A delivery that another trigger received, or a body of your own.">
          <Select className="w-full" value={deliveryId} onChange={(e) => setChosen(e.target.value)}>
            {stored.map((d) => (
              <option key={d.id} value={d.id}>
                {line(d.triggerName)}: {line(d.event || d.source)}, {deliveryLooks[d.state]?.word}, {absolute(millis(d.receivedAt) ?? 0)}
              </option>
            ))}
            <option value="">Custom body</option>
          </Select>
        </Field>
      )}
      {payload && !deliveryId && (
        <>
          <Field label="Body">
            <TextArea rows={6} className="font-mono text-xs" value={body} onChange={(e) => setBody(e.target.value)} spellCheck={false} />
          </Field>
          {eventHeader(draft.sender, "x") && (
            <Field label="Event" hint="The sender's name of it, such as pull_request.">
              <Input value={event} onChange={(e) => setEvent(e.target.value)} autoComplete="off" maxLength={100} />
            </Field>
          )}
        </>
      )}
      <Button disabled={!draft.agent} title={draft.agent ? undefined : "Choose an agent first"} busy={test.isPending} onClick={run}>
        Test
      </Button>
      <div aria-live="polite">
        {test.error ? (
          <Problem error={test.error} />
        ) : test.data ? (
          <Verdict of={test.data} />
        ) : (
          <p className="text-dim">The result appears here: the agent and goal that would start, or why nothing would. A test starts nothing.</p>
        )}
      </div>
    </section>
  );
}

const eventHeaders: Record<string, string> = { github: "X-GitHub-Event", gitlab: "X-Gitlab-Event" };

// eventHeader is the header in which a sender names its event; undefined for senders without one.
function eventHeader(sender: string, event: string): Record<string, string> | undefined {
  const name = eventHeaders[sender];
  return name && event ? { [name]: event } : undefined;
}
