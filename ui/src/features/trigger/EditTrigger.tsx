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

// EditTrigger changes when a trigger fires, and how its deliveries are verified and
// deduplicated. The filter, mapping and goal are changed in Tester.
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
      action="Save"
      onClose={onClose}
      run={async () => {
        setTried(true);
        const wrong = Object.values(all)[0];
        if (wrong) throw new Error(wrong);
        await triggers.updateTrigger({ triggerId: trigger.id, spec: change(spec ? clone(TriggerSpecSchema, spec) : undefined, settings) });
        await refresh();
        toast.success("Saved.");
      }}
    >
      {spec?.cron && (
        <div className="grid gap-3 sm:grid-cols-2">
          {box("schedule", "Schedule", "Minute, hour, day, month, weekday; or @hourly, @daily, @weekly.")}
          {box("timeZone", "Time zone", "Such as Europe/Berlin. Defaults to UTC.")}
          <Field label="Missed runs">
            <Select className="w-full" value={settings.missed} onChange={(e) => set({ missed: e.target.value })}>
              <option value="">Run once</option>
              <option value="skip">Skip</option>
              <option value="all">Run all (up to 10)</option>
            </Select>
          </Field>
        </div>
      )}
      {spec?.loop && (
        <div className="grid gap-3 sm:grid-cols-3">
          {box("pause", "Pause between runs", "Such as 90s, 10m or 2h.")}
          {box("maxRuns", "Maximum runs", "Leave empty for no limit.")}
          {box("budget", "Budget (USD)", "Total of all runs.")}
        </div>
      )}
      {spec?.webhook && (
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Verification">
            <Select className="w-full" value={settings.verify} onChange={(e) => set({ verify: e.target.value })}>
              {verifies.map((v) => (
                <option key={v} value={v}>
                  {v}
                </option>
              ))}
            </Select>
          </Field>
          {settings.verify === "hmac" && box("signatureHeader", "Signature header")}
          {box("tolerance", "Maximum age", "Of deliveries with a signed timestamp. Defaults to 5m.")}
          {box("dedupeHeader", "Deduplication header", "Defaults to the sender's.")}
          {box("rate", "Deliveries per minute", "Limit of each hub. Defaults to 600.")}
        </div>
      )}
      <Field label="If a run is still active">
        <Select className="w-full" value={settings.overlap} onChange={(e) => set({ overlap: e.target.value })}>
          <option value="">{`Default (${spec?.cron ? "skip" : "run in parallel"})`}</option>
          <option value="allow">Run in parallel</option>
          <option value="skip">Skip</option>
          <option value="queue">Queue</option>
          <option value="replace">Replace the active run</option>
        </Select>
      </Field>
      <label className="flex min-h-7 items-center gap-2">
        <input type="checkbox" checked={settings.attended} onChange={(e) => set({ attended: e.target.checked })} /> Attended: the agent may wait for answers in the
        inbox
      </label>
    </FormDialog>
  );
}
