import { clone, create } from "@bufbuild/protobuf";
import { useMutation, useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { toast } from "sonner";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Select, TextArea } from "@/components/Field";
import { Id } from "@/components/Id";
import { Literal, LiteralBlock } from "@/components/Literal";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { Facts } from "@/components/Section";
import { absolute, millis } from "@/components/Time";
import { TriggerService, TriggerSpecSchema, type TestTriggerResponse, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { deliveryLooks, mappingText, parseMapping } from "./words";

// Tester tries a filter, a mapping and a goal on a delivery that came, or on a
// body that is given, and starts nothing. What proves good can be kept.
export function Tester({ trigger }: { trigger: Trigger }) {
  const queries = useQueryClient();
  const recent = useQuery(TriggerService.method.listDeliveries, { triggerId: trigger.id, pageSize: 50 });
  const stored = recent.data?.deliveries ?? [];
  const [chosen, setChosen] = useState<string>();
  const [body, setBody] = useState('{"hello": "there"}');
  const [filter, setFilter] = useState(trigger.spec?.filter ?? "");
  const [goal, setGoal] = useState(trigger.spec?.goal ?? "");
  const [mapping, setMapping] = useState(() => mappingText(trigger.spec?.mapping ?? {}));
  const parsed = parseMapping(mapping);
  const test = useMutation(TriggerService.method.testTrigger);
  const update = useMutation(TriggerService.method.updateTrigger, {
    onSuccess: async () => {
      toast.success(`${trigger.name} does this from now on.`);
      await queries.invalidateQueries({ queryKey: ["connect-query", { serviceName: TriggerService.typeName }] });
    },
  });
  // Until somebody chooses, it is the newest one.
  const deliveryId = chosen ?? stored[0]?.id ?? "";
  const spec = () => {
    const next = trigger.spec ? clone(TriggerSpecSchema, trigger.spec) : create(TriggerSpecSchema);
    next.filter = filter.trim();
    next.goal = goal.trim();
    next.mapping = typeof parsed === "string" ? {} : parsed;
    return next;
  };
  const changed =
    filter.trim() !== (trigger.spec?.filter ?? "") ||
    goal.trim() !== (trigger.spec?.goal ?? "") ||
    mapping.trim() !== mappingText(trigger.spec?.mapping ?? {});
  return (
    <div className="grid gap-6 lg:grid-cols-2">
      <form
        className="min-w-0 space-y-3"
        onSubmit={(e) => {
          e.preventDefault();
          if (typeof parsed === "string") return;
          test.mutate({
            triggerId: trigger.id,
            spec: spec(),
            ...(deliveryId ? { deliveryId } : { body: new TextEncoder().encode(body), headers: { "Content-Type": "application/json" } }),
          });
        }}
      >
        <Field label="What came">
          <Select className="w-full" value={deliveryId} onChange={(e) => setChosen(e.target.value)}>
            {stored.map((d) => (
              <option key={d.id} value={d.id}>
                {line(d.event || d.source)}, {deliveryLooks[d.state]?.word}, {absolute(millis(d.receivedAt) ?? 0)}
              </option>
            ))}
            <option value="">A body of my own</option>
          </Select>
        </Field>
        {!deliveryId && (
          <Field label="Body">
            <TextArea rows={6} className="font-mono text-xs" value={body} onChange={(e) => setBody(e.target.value)} spellCheck={false} />
          </Field>
        )}
        <Field label="Filter" hint="CEL that answers whether it starts anything, such as payload.action == 'opened'. Empty for all.">
          <TextArea rows={2} className="font-mono text-xs" value={filter} onChange={(e) => setFilter(e.target.value)} maxLength={4000} spellCheck={false} />
        </Field>
        <Field
          label="Mapping"
          hint="One name = CEL a line, such as title = payload.pull_request.title"
          problem={typeof parsed === "string" ? parsed : undefined}
        >
          <TextArea rows={4} className="font-mono text-xs" value={mapping} onChange={(e) => setMapping(e.target.value)} spellCheck={false} />
        </Field>
        <Field label="Goal" hint="{{ }} holds CEL, whose value stands in its place as data. Empty for the persona's own instructions.">
          <TextArea rows={4} className="font-mono text-xs" value={goal} onChange={(e) => setGoal(e.target.value)} maxLength={8000} spellCheck={false} />
        </Field>
        <div className="flex flex-wrap gap-2">
          <Button type="submit" look="primary" busy={test.isPending} disabled={typeof parsed === "string"}>
            Try it
          </Button>
          <Button
            disabled={!changed || typeof parsed === "string"}
            busy={update.isPending}
            onClick={() => update.mutate({ triggerId: trigger.id, spec: spec() })}
          >
            Keep these
          </Button>
        </div>
        {update.error && <Problem error={update.error} />}
      </form>
      <section aria-label="What would become of it" aria-live="polite" className="min-w-0">
        {test.error ? (
          <Problem error={test.error} />
        ) : test.data ? (
          <Verdict of={test.data} />
        ) : (
          <p className="text-dim">Try it, and what would become of the delivery is shown here. Nothing is started.</p>
        )}
      </section>
    </div>
  );
}

function Verdict({ of }: { of: TestTriggerResponse }) {
  const look = deliveryLooks[of.state] ?? deliveryLooks[0];
  return (
    <div className="space-y-3">
      <Facts
        of={[
          ["It would be", <Badge key="b" tone={look.tone} dot>{look.word}</Badge>],
          ["Why", of.reason && <Literal text={of.reason} />],
          ["Event", of.event && <Literal text={of.event} />],
          ["Told apart by", of.key && <Id value={of.key} whole />],
          ["One at a time with", of.flight && <Literal text={of.flight} />],
        ]}
      />
      {of.mapped && Object.keys(of.mapped).length > 0 && (
        <div>
          <h2 className="pb-1 text-sm font-semibold">Mapped</h2>
          <LiteralBlock text={JSON.stringify(of.mapped, null, 2)} label="Mapped" />
        </div>
      )}
      {of.prompt && (
        <div>
          <h2 className="pb-1 text-sm font-semibold">Prompt</h2>
          <LiteralBlock text={of.prompt} label="Prompt" />
        </div>
      )}
    </div>
  );
}
