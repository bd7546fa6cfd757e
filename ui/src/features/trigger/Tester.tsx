import { clone, create } from "@bufbuild/protobuf";
import { useMutation, useQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { Button } from "@/components/Button";
import { Field, Select, TextArea } from "@/components/Field";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { absolute, millis } from "@/components/Time";
import { TriggerService, TriggerSpecSchema, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { condition, fieldsOf, withCondition, type PayloadField } from "./fields";
import { Verdict } from "./Verdict";
import { bodyText, deliveryLooks, mappingText, parseMapping } from "./words";

// Tester tests a filter, a mapping and a goal on a stored delivery or a custom body,
// without starting anything, and saves them.
export function Tester({ trigger }: { trigger: Trigger }) {
  const refresh = useRefresh(TriggerService);
  const recent = useQuery(TriggerService.method.listDeliveries, { triggerId: trigger.id, pageSize: 50 });
  const stored = recent.data?.deliveries ?? [];
  const [chosen, setChosen] = useState<string>();
  const [body, setBody] = useState('{"hello": "there"}');
  const [filter, setFilter] = useState(trigger.spec?.filter ?? "");
  const [goal, setGoal] = useState(trigger.spec?.goal ?? "");
  const [mapping, setMapping] = useState(() => mappingText(trigger.spec?.mapping ?? {}));
  const parsed = parseMapping(mapping);
  // Until somebody chooses, it is the newest one.
  const deliveryId = chosen ?? stored[0]?.id ?? "";
  const sample = useQuery(TriggerService.method.getDelivery, { deliveryId }, { enabled: deliveryId !== "" });
  const payload = deliveryId ? bodyText(sample.data?.delivery?.body ?? new Uint8Array()) : body;
  const fields = useMemo(() => fieldsOf(payload), [payload]);
  const test = useMutation(TriggerService.method.testTrigger);
  const update = useMutation(TriggerService.method.updateTrigger, {
    onSuccess: async () => {
      toast.success("Saved.");
      await refresh();
    },
  });
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
        <Field label="Test delivery">
          <Select className="w-full" value={deliveryId} onChange={(e) => setChosen(e.target.value)}>
            {stored.map((d) => (
              <option key={d.id} value={d.id}>
                {line(d.event || d.source)}, {deliveryLooks[d.state]?.word}, {absolute(millis(d.receivedAt) ?? 0)}
              </option>
            ))}
            <option value="">Custom body</option>
          </Select>
        </Field>
        {!deliveryId && (
          <Field label="Body">
            <TextArea rows={6} className="font-mono text-xs" value={body} onChange={(e) => setBody(e.target.value)} spellCheck={false} />
          </Field>
        )}
        <Field label="Filter" hint="CEL expression; only deliveries for which it is true start a run, such as payload.action == 'opened'. Leave empty for all.">
          <TextArea rows={2} className="font-mono text-xs" value={filter} onChange={(e) => setFilter(e.target.value)} maxLength={4000} spellCheck={false} />
        </Field>
        <Insert label="Add a condition to the filter" fields={fields} word={condition} insert={(f) => setFilter(withCondition(filter, f))} />
        <Field
          label="Mapping"
          hint="One name = CEL per line, such as title = payload.pull_request.title"
          problem={typeof parsed === "string" ? parsed : undefined}
        >
          <TextArea rows={4} className="font-mono text-xs" value={mapping} onChange={(e) => setMapping(e.target.value)} spellCheck={false} />
        </Field>
        <Field label="Goal" hint="Optional: leave empty to follow the persona. {{ }} inserts the value of a CEL expression as data.">
          <TextArea rows={4} className="font-mono text-xs" value={goal} onChange={(e) => setGoal(e.target.value)} maxLength={8000} spellCheck={false} />
        </Field>
        <Insert label="Insert a field into the goal" fields={fields} word={(f) => `{{ ${f.path} }}  ${f.value.slice(0, 40)}`} insert={(f) => setGoal(`${goal}{{ ${f.path} }}`)} />
        <div className="flex flex-wrap gap-2">
          <Button type="submit" look="primary" busy={test.isPending} disabled={typeof parsed === "string"}>
            Test
          </Button>
          <Button
            disabled={!changed || typeof parsed === "string"}
            busy={update.isPending}
            onClick={() => update.mutate({ triggerId: trigger.id, spec: spec() })}
          >
            Save
          </Button>
        </div>
        {update.error && <Problem error={update.error} />}
      </form>
      <section aria-label="Test result" aria-live="polite" className="min-w-0">
        {test.error ? (
          <Problem error={test.error} />
        ) : test.data ? (
          <Verdict of={test.data} />
        ) : (
          <p className="text-dim">The result of the test appears here. A test starts nothing.</p>
        )}
      </section>
    </div>
  );
}

// Insert offers the fields of the payload that is tested with.
function Insert(props: { label: string; fields: PayloadField[]; word: (f: PayloadField) => string; insert: (f: PayloadField) => void }) {
  if (props.fields.length === 0) return null;
  return (
    <Select aria-label={props.label} className="w-full max-w-full text-xs" value="" onChange={(e) => props.fields[Number(e.target.value)] && props.insert(props.fields[Number(e.target.value)]!)}>
      <option value="">{props.label}…</option>
      {props.fields.map((f, i) => (
        <option key={f.path} value={i}>
          {line(props.word(f))}
        </option>
      ))}
    </Select>
  );
}
