import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { useId } from "react";
import { byToken, useRest } from "@/api/pages";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { Skeletons } from "@/components/Skeleton";
import { Problem } from "@/components/Problem";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { ToolService } from "@/gen/deckhand/v1/tool_pb";
import { modes, senders } from "@/gen/facts";
import type { Settings, TriggerSettings } from "./frontmatter";

const kinds: [TriggerSettings["kind"] | "", string][] = [
  ["", "Manual only"],
  ["webhook", "Webhook"],
  ["cron", "Schedule"],
  ["loop", "Continuously (loop)"],
  ["manual", "Button"],
];

// SettingsForm edits the most common settings of a persona's front matter. The text
// beside it has all of them.
export function SettingsForm(props: {
  settings: Settings | undefined;
  // The agent is there already: its name stays.
  fixedName: boolean;
  onChange: (change: Partial<Settings>) => void;
}) {
  const { settings: s, onChange } = props;
  if (!s) {
    return (
      <p className="text-dim">The front matter has a syntax error. Fix it in the editor to use this form.</p>
    );
  }
  return (
    <div className="space-y-3">
      <Field
        label="Name"
        hint={props.fixedName ? "The name cannot be changed. To copy the agent under a new name, create a new agent from this text." : "Lower-case letters, digits and dashes."}
      >
        <Input value={s.name} readOnly={props.fixedName} maxLength={63} onChange={(e) => onChange({ name: e.target.value })} />
      </Field>
      <Field label="Description">
        <Input value={s.description} onChange={(e) => onChange({ description: e.target.value })} />
      </Field>
      <Model provider={s.provider} model={s.model} onChange={onChange} />
      <Field label="Mode" hint={modeHints[s.mode || "autonomous"]}>
        <Select className="w-full" value={s.mode} onChange={(e) => onChange({ mode: e.target.value })}>
          <option value="">Default (autonomous)</option>
          {modes.map((m) => (
            <option key={m} value={m}>
              {m}
            </option>
          ))}
        </Select>
      </Field>
      <div className="grid grid-cols-2 gap-2">
        <Field label="Iterations of a run" hint="Default: 50.">
          <Input inputMode="numeric" value={s.iterations} onChange={(e) => onChange({ iterations: e.target.value })} />
        </Field>
        <Field label="Cost of a run (USD)" hint="Default: 10.">
          <Input inputMode="decimal" value={s.costUsd} onChange={(e) => onChange({ costUsd: e.target.value })} />
        </Field>
      </div>
      <Tools tools={s.tools} asked={s.asked} onChange={onChange} />
      <NodeSettings nodes={s.nodes} labels={s.labels} onChange={onChange} />
      <TriggerForm agent={s.name} trigger={s.trigger} more={s.triggers - 1} onChange={(trigger) => onChange({ trigger })} />
    </div>
  );
}

const modeHints: Record<string, string> = {
  autonomous: "Asks about dangerous calls only.",
  supervised: "Asks about every call that is not safe.",
  review: "Nothing leaves the workspace until a person accepts the run.",
};

// Model chooses a provider that is connected and one of its models. Others can be typed:
// they may be connected later.
function Model(props: { provider: string; model: string; onChange: (change: Partial<Settings>) => void }) {
  const { provider, model } = props;
  const id = useId();
  const connected = useQuery(ProviderService.method.listProviders, {});
  const prices = useQuery(ProviderService.method.listPrices, { pageSize: 500 });
  const names = ["script", ...(connected.data?.providers.map((p) => p.name) ?? [])];
  const models = prices.data?.prices.filter((p) => p.provider === provider).map((p) => p.model) ?? [];
  const missing = connected.data && provider && !names.includes(provider);
  return (
    <div className="grid grid-cols-2 gap-2">
      <Field label="Provider" hint={missing ? `${provider} is not connected.` : undefined}>
        <Input list={`${id}-providers`} value={provider} onChange={(e) => props.onChange({ provider: e.target.value })} />
      </Field>
      <Field label="Model" hint={models.length > 0 && model && !models.includes(model) ? "No price is known for this model." : undefined}>
        <Input list={`${id}-models`} value={model} disabled={provider === "script"} onChange={(e) => props.onChange({ model: e.target.value })} />
      </Field>
      <datalist id={`${id}-providers`}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <datalist id={`${id}-models`}>
        {models.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  );
}

// Tools chooses what the agent may call, and which of the calls need approval.
function Tools(props: { tools: string[]; asked: string[]; onChange: (change: Partial<Settings>) => void }) {
  const { tools, asked } = props;
  const known = useQuery(ToolService.method.listTools, { pageSize: 500 });
  const about = new Map(known.data?.tools.map((t) => [t.tool?.name ?? "", t.tool?.description ?? ""]));
  const names = [...new Set([...about.keys(), ...tools, ...asked])].sort();
  const without = (all: string[], name: string) => all.filter((n) => n !== name);
  return (
    <details className="rounded-md border p-2">
      <summary className="cursor-pointer text-sm font-medium">
        Tools <span className="font-normal text-dim">{tools.length} chosen{asked.length > 0 && `, ${asked.length} need approval`}</span>
      </summary>
      {known.error && <Problem error={known.error} retry={() => void known.refetch()} compact />}
      <ul aria-label="Tools" className="max-h-80 space-y-0.5 overflow-y-auto pt-2">
        {names.map((name) => (
          <li key={name} className="flex flex-wrap items-center gap-x-3" title={about.get(name)}>
            <label className="flex min-h-6 min-w-0 flex-1 items-center gap-2">
              <input
                type="checkbox"
                className="size-4 accent-accent"
                checked={tools.includes(name)}
                onChange={(e) => props.onChange(e.target.checked ? { tools: [...tools, name] } : { tools: without(tools, name), ...(asked.includes(name) ? { asked: without(asked, name) } : {}) })}
              />
              <span className="min-w-0 font-mono text-xs break-all">{name}</span>
            </label>
            {tools.includes(name) && (
              <label className="flex min-h-6 items-center gap-1.5 text-xs text-dim">
                <input
                  type="checkbox"
                  className="size-4 accent-accent"
                  aria-label={`Ask before ${name}`}
                  checked={asked.includes(name)}
                  onChange={(e) => props.onChange({ asked: e.target.checked ? [...asked, name] : without(asked, name) })}
                />
                ask
              </label>
            )}
          </li>
        ))}
      </ul>
    </details>
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
      <legend className="text-sm font-medium">Nodes</legend>
      {known.isPending ? (
        <Skeletons rows={1} />
      ) : known.error ? (
        <Problem error={known.error} retry={() => void known.refetch()} compact />
      ) : names.length === 0 ? (
        <p className="text-xs text-dim">No nodes connected. Tasks will queue until one is.</p>
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
          ? "Runs on any node."
          : "Runs on one of the selected nodes that has all selected labels."}
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
      <legend className="text-sm font-medium">Trigger</legend>
      <Select aria-label="Trigger" value={t?.kind ?? ""} onChange={(e) => setKind(e.target.value as TriggerSettings["kind"] | "")}>
        {kinds.map(([kind, word]) => (
          <option key={kind} value={kind}>
            {word}
          </option>
        ))}
      </Select>
      {t && (
        <>
          <Field label="Trigger name" hint="Unique in the organisation.">
            <Input value={t.name} maxLength={63} onChange={(e) => set({ name: e.target.value })} />
          </Field>
          {t.kind === "webhook" && (
            <Field label="Sender" hint="Its URL and secret are shown when you deploy.">
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
              <Field label="Time zone" hint="Defaults to UTC.">
                <Input value={t.timeZone} placeholder="Europe/Berlin" onChange={(e) => set({ timeZone: e.target.value })} />
              </Field>
            </div>
          )}
          {t.kind === "loop" && (
            <Field label="Pause between runs">
              <Input value={t.pause} placeholder="1m" onChange={(e) => set({ pause: e.target.value })} />
            </Field>
          )}
          <Field label="Goal" hint={t.kind === "webhook" ? "Optional: leave empty to follow the persona. {{ payload.x }} inserts a field of the request." : "Optional: leave empty to follow the persona."}>
            <TextArea rows={2} value={t.goal} onChange={(e) => set({ goal: e.target.value })} />
          </Field>
          {props.more > 0 && (
            <p className="text-xs text-dim">
              The file has {props.more} more {props.more === 1 ? "trigger" : "triggers"}.
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
