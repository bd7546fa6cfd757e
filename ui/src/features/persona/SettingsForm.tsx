import { useInfiniteQuery } from "@connectrpc/connect-query";
import { byToken, useRest } from "@/api/pages";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { Skeletons } from "@/components/Skeleton";
import { Problem } from "@/components/Problem";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { senders } from "@/gen/facts";
import type { Settings, TriggerSettings } from "./frontmatter";

const kinds: [TriggerSettings["kind"] | "", string][] = [
  ["", "Nothing: people run it"],
  ["webhook", "A webhook"],
  ["cron", "A schedule"],
  ["loop", "The end of its last run"],
  ["manual", "A button"],
];

// SettingsForm changes what most people change of a persona's front matter. The
// text beside it says all.
export function SettingsForm(props: {
  settings: Settings | undefined;
  // The agent is there already: its name stays.
  fixedName: boolean;
  onChange: (change: Partial<Settings>) => void;
}) {
  const { settings: s, onChange } = props;
  if (!s) {
    return (
      <p className="text-dim">The front matter cannot be read: mend it in the text, and its settings stand here again.</p>
    );
  }
  return (
    <div className="space-y-3">
      <Field
        label="Name"
        hint={props.fixedName ? "Another name would be another agent." : "Lower-case letters, digits and dashes."}
      >
        <Input value={s.name} readOnly={props.fixedName} maxLength={63} onChange={(e) => onChange({ name: e.target.value })} />
      </Field>
      <Field label="Description">
        <Input value={s.description} onChange={(e) => onChange({ description: e.target.value })} />
      </Field>
      <div className="grid grid-cols-2 gap-2">
        <Field label="Provider">
          <Input value={s.provider} onChange={(e) => onChange({ provider: e.target.value })} />
        </Field>
        <Field label="Model">
          <Input value={s.model} disabled={s.provider === "script"} onChange={(e) => onChange({ model: e.target.value })} />
        </Field>
      </div>
      <NodeSettings nodes={s.nodes} labels={s.labels} onChange={onChange} />
      <TriggerForm agent={s.name} trigger={s.trigger} more={s.triggers - 1} onChange={(trigger) => onChange({ trigger })} />
    </div>
  );
}

function NodeSettings(props: {
  nodes: string[];
  labels: Record<string, string>;
  onChange: (change: Partial<Settings>) => void;
}) {
  const { nodes, labels } = props;
  const known = useInfiniteQuery(NodeService.method.listNodes, { pageSize: 500, pageToken: "" }, byToken);
  useRest(known);
  const standing = (known.data?.pages.flatMap((page) => page.nodes) ?? []).filter((n) => n.status !== "revoked");
  const names = [...new Set([...standing.map((n) => n.name), ...nodes])].sort();
  const pairs = [
    ...new Set([...standing.flatMap((n) => Object.entries(n.labels)), ...Object.entries(labels)].map(([k, v]) => `${k}=${v}`)),
  ].sort();
  const has = (pair: string) => labels[pair.slice(0, pair.indexOf("="))] === pair.slice(pair.indexOf("=") + 1);
  const setLabel = (pair: string, on: boolean) => {
    const at = pair.indexOf("=");
    const { [pair.slice(0, at)]: _, ...rest } = labels;
    props.onChange({ labels: on ? { ...rest, [pair.slice(0, at)]: pair.slice(at + 1) } : rest });
  };
  return (
    <fieldset className="space-y-1">
      <legend className="text-sm font-medium">Where it may run</legend>
      {known.isPending ? (
        <Skeletons rows={1} />
      ) : known.error ? (
        <Problem error={known.error} retry={() => void known.refetch()} compact />
      ) : names.length === 0 ? (
        <p className="text-xs text-dim">No node is connected yet: it waits for one.</p>
      ) : (
        <ul className="space-y-0.5">
          {names.map((name) => (
            <Check
              key={name}
              label={name}
              checked={nodes.includes(name)}
              onChange={(on) => props.onChange({ nodes: on ? [...nodes, name] : nodes.filter((n) => n !== name) })}
            />
          ))}
          {pairs.map((pair) => (
            <Check key={pair} label={pair} note="label" checked={has(pair)} onChange={(on) => setLabel(pair, on)} />
          ))}
        </ul>
      )}
      <p className="text-xs text-dim">
        {nodes.length === 0 && Object.keys(labels).length === 0
          ? "On any node."
          : "On one of the chosen nodes that has all of the chosen labels."}
      </p>
    </fieldset>
  );
}

function Check(props: { label: string; note?: string; checked: boolean; onChange: (on: boolean) => void }) {
  return (
    <li>
      <label className="flex min-h-6 items-center gap-2">
        <input type="checkbox" checked={props.checked} onChange={(e) => props.onChange(e.target.checked)} />
        <span className="truncate">{props.label}</span>
        {props.note && <span className="text-xs text-dim">{props.note}</span>}
      </label>
    </li>
  );
}

const defaults: Omit<TriggerSettings, "name" | "kind"> = { sender: "token", schedule: "0 8 * * *", timeZone: "", pause: "10m", goal: "" };

function TriggerForm(props: {
  agent: string;
  trigger: TriggerSettings | undefined;
  // Triggers that the file names besides.
  more: number;
  onChange: (t: TriggerSettings | undefined) => void;
}) {
  const t = props.trigger;
  const set = (change: Partial<TriggerSettings>) => t && props.onChange({ ...t, ...change });
  const setKind = (kind: TriggerSettings["kind"] | "") => {
    if (!kind) props.onChange(undefined);
    else {
      const name = `${props.agent || "agent"}-${kind}`.slice(0, 63);
      props.onChange(t ? { ...t, kind, ...filled(t) } : { name, kind, ...defaults });
    }
  };
  return (
    <fieldset className="space-y-2">
      <legend className="text-sm font-medium">What starts it</legend>
      <Select aria-label="What starts it" value={t?.kind ?? ""} onChange={(e) => setKind(e.target.value as TriggerSettings["kind"] | "")}>
        {kinds.map(([kind, word]) => (
          <option key={kind} value={kind}>
            {word}
          </option>
        ))}
      </Select>
      {t && (
        <>
          <Field label="Trigger's name" hint="Of the whole organisation.">
            <Input value={t.name} maxLength={63} onChange={(e) => set({ name: e.target.value })} />
          </Field>
          {t.kind === "webhook" && (
            <Field label="Sent by" hint="Its URL and secret are shown when you deploy.">
              <Select value={t.sender} onChange={(e) => set({ sender: e.target.value })}>
                {[...new Set([...senders.map((s) => s.name), t.sender])].map((sender) => (
                  <option key={sender}>{sender}</option>
                ))}
              </Select>
            </Field>
          )}
          {t.kind === "cron" && (
            <div className="grid grid-cols-2 gap-2">
              <Field label="Schedule" hint="minute hour day month weekday">
                <Input value={t.schedule} onChange={(e) => set({ schedule: e.target.value })} />
              </Field>
              <Field label="Time zone" hint="Empty for UTC.">
                <Input value={t.timeZone} placeholder="Europe/Berlin" onChange={(e) => set({ timeZone: e.target.value })} />
              </Field>
            </div>
          )}
          {t.kind === "loop" && (
            <Field label="Pause between runs">
              <Input value={t.pause} placeholder="1m" onChange={(e) => set({ pause: e.target.value })} />
            </Field>
          )}
          <Field label="Goal" hint={t.kind === "webhook" ? "{{ payload.x }} holds what was sent. Empty: its own instructions." : "Empty: its own instructions."}>
            <TextArea rows={2} value={t.goal} onChange={(e) => set({ goal: e.target.value })} />
          </Field>
          {props.more > 0 && (
            <p className="text-xs text-dim">
              The text names {props.more} more {props.more === 1 ? "trigger" : "triggers"}.
            </p>
          )}
        </>
      )}
    </fieldset>
  );
}

// What a trigger of another kind had not is as for a new one.
const filled = (t: TriggerSettings) => ({
  sender: t.sender || defaults.sender,
  schedule: t.schedule || defaults.schedule,
  pause: t.pause || defaults.pause,
});
