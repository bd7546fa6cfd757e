import { lazy, Suspense, useMemo, useState } from "react";
import { Field, Input, TextArea } from "@/components/Field";
import { json, line, pieces, type ActObject, type ActValue } from "@/components/marks";
import { Skeletons } from "@/components/Skeleton";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { ApproveEdited, type Approve } from "./ApproveEdited";
import { Part } from "./Parts";

const Comparison = lazy(() => import("@/components/Comparison").then((m) => ({ default: m.Comparison })));
const TextEditor = lazy(() => import("./TextEditor").then((m) => ({ default: m.TextEditor })));
// Arguments of these names are edited as texts of several lines, however short.
const texts = new Set(["command", "content", "old_string", "new_string", "body", "text", "input", "goal"]);

const asText = (name: string, value: string) =>
  texts.has(name) || value.length > 120 || pieces(value, true).some((p) => typeof p === "object");

const labelOf = (name: string) => name.slice(0, 1).toUpperCase() + name.slice(1).replaceAll("_", " ");

// EditCall edits the arguments of a call, each as what it is, shows what differs
// from what was asked, and what the hub decides about it. It is approved as it was
// judged, and not before.
export function EditCall(props: {
  item: InboxItem;
  asked: ActObject;
  busy: boolean;
  disabled: boolean;
  onApprove: Approve;
  onBack: () => void;
}) {
  const { item, asked } = props;
  const [args, setArgs] = useState<Record<string, unknown>>(() => ({ ...asked }));
  // Arguments that are edited as JSON and are none at the moment.
  const [broken, setBroken] = useState<Record<string, string>>({});
  const text = useMemo(() => JSON.stringify(args), [args]);
  const invalid = Object.keys(broken).length > 0;
  const names = Object.keys(args).sort((a, b) => Number(asText(a, String(args[a]))) - Number(asText(b, String(args[b]))) || (a < b ? -1 : 1));
  const changed = names.filter((n) => JSON.stringify(args[n]) !== JSON.stringify(asked[n]));
  const set = (name: string) => (value: unknown) => setArgs((before) => ({ ...before, [name]: value }));
  return (
    <section aria-label="Edit the call" className="space-y-3 rounded-md border p-3">
      {names.map((name) => (
        <Argument
          key={name}
          name={name}
          shell={name === "command"}
          value={args[name] as ActValue}
          problem={broken[name]}
          onChange={set(name)}
          onBroken={(problem) =>
            setBroken((before) => {
              const after = { ...before };
              if (problem) after[name] = problem;
              else delete after[name];
              return after;
            })
          }
        />
      ))}
      {changed.length > 0 && (
        <Part name="What you changed">
          <Suspense fallback={<Skeletons rows={2} />}>
            {changed.map((name) => (
              <div key={name} className="space-y-1">
                <p className="text-xs text-dim">{labelOf(name)}</p>
                <Comparison before={flat(asked[name])} after={flat(args[name])} label={line(`Changes of ${labelOf(name)}`)} />
              </div>
            ))}
          </Suspense>
        </Part>
      )}
      <ApproveEdited
        item={item}
        text={text}
        invalid={invalid}
        label="Approve edited call"
        busy={props.busy}
        disabled={props.disabled}
        onApprove={props.onApprove}
        onBack={props.onBack}
      />
    </section>
  );
}

const flat = (value: unknown) => (typeof value === "string" ? value : value === undefined ? "" : (JSON.stringify(value, null, 2) ?? ""));

function Argument(props: {
  name: string;
  shell: boolean;
  value: ActValue;
  problem: string | undefined;
  onChange: (value: unknown) => void;
  onBroken: (problem: string | undefined) => void;
}) {
  const { name, value } = props;
  const label = line(labelOf(name));
  // What is a text in the beginning stays one.
  const [multi] = useState(() => typeof value === "string" && asText(name, value));
  const [raw, setRaw] = useState(() => (typeof value === "object" ? json(value) : ""));
  if (multi)
    return (
      <div className="space-y-1">
        <p className="text-sm font-medium">{label}</p>
        <Suspense fallback={<Skeletons rows={3} />}>
          <TextEditor label={label} value={value as string} shell={props.shell} onChange={props.onChange} />
        </Suspense>
      </div>
    );
  if (typeof value === "boolean")
    return (
      <label className="flex min-h-8 items-center gap-2">
        <input type="checkbox" className="size-4 accent-accent" checked={value} onChange={(e) => props.onChange(e.target.checked)} />
        {label}
      </label>
    );
  if (typeof value === "number")
    return (
      <Field label={label} problem={props.problem}>
        <Input
          inputMode="decimal"
          defaultValue={String(value)}
          onChange={(e) => {
            const n = Number(e.target.value);
            const bad = e.target.value.trim() === "" || !Number.isFinite(n);
            props.onBroken(bad ? "Enter a number." : undefined);
            if (!bad) props.onChange(n);
          }}
        />
      </Field>
    );
  if (typeof value === "string")
    return (
      <Field label={label}>
        <Input className="font-mono text-xs" value={value} spellCheck={false} onChange={(e) => props.onChange(e.target.value)} />
      </Field>
    );
  return (
    <Field label={`${label} (JSON)`} problem={props.problem}>
      <TextArea
        className="font-mono text-xs"
        rows={4}
        value={raw}
        spellCheck={false}
        onChange={(e) => {
          setRaw(e.target.value);
          try {
            props.onChange(JSON.parse(e.target.value));
            props.onBroken(undefined);
          } catch (err) {
            props.onBroken(err instanceof Error ? err.message : String(err));
          }
        }}
      />
    </Field>
  );
}
