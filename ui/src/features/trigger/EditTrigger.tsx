import { clone } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { TriggerService, TriggerSpecSchema, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { change, settingsOf, settingProblems, verifies, type Settings } from "./settings";

const triggers = createClient(TriggerService, transport);

// EditTrigger changes when a trigger fires, and how what comes to it is proved and
// told apart. What its page tries on deliveries (filter, mapping, goal) stays.
export function EditTrigger({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const refresh = useRefresh(TriggerService);
  const spec = trigger.spec;
  const [settings, setSettings] = useState(() => settingsOf(trigger));
  const [tried, setTried] = useState(false);
  const set = (c: Partial<Settings>) => setSettings((s) => ({ ...s, ...c }));
  const all = settingProblems(settings, trigger);
  const problems = tried ? all : {};
  const box = (name: Exclude<keyof Settings, "attended">, label: string, hint?: string) => (
    <Field label={label} hint={hint} problem={problems[name]}>
      <Input value={settings[name]} onChange={(e) => set({ [name]: e.target.value })} autoComplete="off" maxLength={2000} />
    </Field>
  );
  return (
    <FormDialog
      title={`Change ${trigger.name}`}
      action="Change it"
      onClose={onClose}
      run={async () => {
        setTried(true);
        const wrong = Object.values(all)[0];
        if (wrong) throw new Error(wrong);
        await triggers.updateTrigger({ triggerId: trigger.id, spec: change(spec ? clone(TriggerSpecSchema, spec) : undefined, settings) });
        await refresh();
        toast.success(`${trigger.name} is changed.`);
      }}
    >
      {spec?.cron && (
        <div className="grid gap-3 sm:grid-cols-2">
          {box("schedule", "Schedule", "Minute, hour, day, month, weekday; or @daily and its like.")}
          {box("timeZone", "Time zone", "Such as Europe/Berlin; empty for UTC.")}
          <Field label="Runs that no hub was there for">
            <Select className="w-full" value={settings.missed} onChange={(e) => set({ missed: e.target.value })}>
              <option value="">Are made up for once</option>
              <option value="skip">Are left out</option>
              <option value="all">Are all made up for, the newest ten</option>
            </Select>
          </Field>
        </div>
      )}
      {spec?.loop && (
        <div className="grid gap-3 sm:grid-cols-3">
          {box("pause", "Pause after a run", "Such as 90s, 10m or 2h.")}
          {box("maxRuns", "Stops after", "Runs; empty for no end.")}
          {box("budget", "Stops at a cost of", "US dollars.")}
        </div>
      )}
      {spec?.webhook && (
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Proved by">
            <Select className="w-full" value={settings.verify} onChange={(e) => set({ verify: e.target.value })}>
              {verifies.map((v) => (
                <option key={v} value={v}>
                  {v}
                </option>
              ))}
            </Select>
          </Field>
          {settings.verify === "hmac" && box("signatureHeader", "Header of the signature")}
          {box("tolerance", "How old it may be", "Of what is signed with a time; empty for 5m.")}
          {box("dedupeHeader", "Header that tells deliveries apart", "Empty for what the sender uses.")}
          {box("rate", "Deliveries a minute", "That each hub takes; empty for 600.")}
        </div>
      )}
      <Field label="While the run before goes on">
        <Select className="w-full" value={settings.overlap} onChange={(e) => set({ overlap: e.target.value })}>
          <option value="">As its kind does by default</option>
          <option value="allow">Another starts beside it</option>
          <option value="skip">Nothing is started</option>
          <option value="queue">The next one waits for it</option>
          <option value="replace">It is ended for the next one</option>
        </Select>
      </Field>
      <label className="flex min-h-7 items-center gap-2">
        <input type="checkbox" checked={settings.attended} onChange={(e) => set({ attended: e.target.checked })} /> Somebody watches the inbox: the agent may wait for a
        person
      </label>
    </FormDialog>
  );
}
