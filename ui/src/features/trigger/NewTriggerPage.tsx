import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Command } from "@/components/Command";
import { Empty } from "@/components/Empty";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { may } from "@/features/session/queries";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { TriggerService, type CreateTriggerResponse } from "@/gen/deckhand/v1/trigger_pb";
import { senders } from "@/gen/facts";
import { setup } from "./setup";
import { emptyDraft, problemsOf, requestOf, type Draft } from "./draft";
import { NextRuns, urlOf } from "./parts";
import { TryDraft } from "./TryDraft";

const triggers = createClient(TriggerService, transport);
const route = getRouteApi("/shell/triggers/new");

const kinds: [Draft["kind"], string, string][] = [
  ["webhook", "Webhook", "on each request to its URL"],
  ["cron", "Schedule", "at fixed times"],
  ["loop", "Loop", "continuously, with a pause between runs"],
];

// NewTriggerPage creates a trigger for an existing agent.
export function NewTriggerPage() {
  const { agent } = route.useSearch();
  const session = useSession();
  const refresh = useRefresh(TriggerService);
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const [draft, setDraft] = useState(() => emptyDraft(agent ?? "", Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"));
  const [tried, setTried] = useState(false);
  // Secrets are in no state and no cache: one that is typed is read from its box
  // when it is sent.
  const secret = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [made, setMade] = useState<CreateTriggerResponse>();
  const send = async () => {
    setBusy(true);
    setError(undefined);
    try {
      setMade(await triggers.createTrigger(requestOf(draft, secret.current?.value.trim())));
      await refresh();
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const set = (change: Partial<Draft>) => setDraft((d) => ({ ...d, ...change }));
  const all = problemsOf(draft);
  const problems = tried ? all : {};
  if (!may(session, "advanced")) {
    return (
      <Page title="New trigger">
        <Empty title={`You need the role "advanced" to create triggers (yours is "${session.role}").`} />
      </Page>
    );
  }
  if (made) return <Made of={made} sender={draft.sender} />;
  return (
    <Page title="New trigger">
      <form
        className="max-w-2xl space-y-4"
        onSubmit={(e) => {
          e.preventDefault();
          setTried(true);
          if (Object.keys(all).length === 0 && !busy) void send();
        }}
      >
        <fieldset>
          <legend className="pb-1 text-sm font-medium">Kind</legend>
          <div className="space-y-1">
            {kinds.map(([kind, label, when]) => (
              <label key={kind} className="flex min-h-7 items-center gap-2">
                <input type="radio" name="kind" checked={draft.kind === kind} onChange={() => set({ kind })} className="accent-accent" />
                <span className="font-medium">{label}</span> <span className="text-dim">{when}</span>
              </label>
            ))}
          </div>
        </fieldset>
        <Field label="Name" hint="Lower-case letters, digits and dashes." problem={problems.name}>
          <Input value={draft.name} onChange={(e) => set({ name: e.target.value })} autoComplete="off" maxLength={63} />
        </Field>
        <Field label="Agent" problem={problems.agent}>
          <Select className="w-full" value={draft.agent} onChange={(e) => set({ agent: e.target.value })}>
            <option value="">{agents.isPending ? "Loading…" : "Choose an agent"}</option>
            {agents.data?.agents.map((a) => (
              <option key={a.id} value={a.name}>
                {a.name}
              </option>
            ))}
          </Select>
        </Field>
        {agents.error && <Problem error={agents.error} retry={() => void agents.refetch()} />}
        {draft.kind === "webhook" && (
          <>
            <Field label="Sender" hint="Sets how deliveries are verified and deduplicated.">
              <Select className="w-full" value={draft.sender} onChange={(e) => set({ sender: e.target.value })}>
                {senders.map(({ name, label }) => (
                  <option key={name} value={name}>
                    {label}
                  </option>
                ))}
              </Select>
            </Field>
            <Field label="Secret" hint="Only if the sender issued one, as Slack and Stripe do. Leave empty to generate one.">
              <Input ref={secret} type="password" autoComplete="off" maxLength={500} />
            </Field>
            <Field label="Filter" hint="CEL expression; only deliveries for which it is true start a run. Leave empty for all.">
              <TextArea rows={2} className="font-mono text-xs" value={draft.filter} onChange={(e) => set({ filter: e.target.value })} maxLength={4000} spellCheck={false} />
            </Field>
          </>
        )}
        {draft.kind === "cron" && (
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Schedule" hint="Minute, hour, day, month, weekday; or @hourly, @daily, @weekly." problem={problems.schedule}>
              <Input className="font-mono" value={draft.schedule} onChange={(e) => set({ schedule: e.target.value })} autoComplete="off" />
            </Field>
            <Field label="Time zone">
              <Input value={draft.timeZone} onChange={(e) => set({ timeZone: e.target.value })} autoComplete="off" maxLength={64} />
            </Field>
            <Field label="Missed runs">
              <Select className="w-full" value={draft.missed} onChange={(e) => set({ missed: e.target.value })}>
                <option value="">Run once</option>
                <option value="skip">Skip</option>
                <option value="all">Run all (up to 10)</option>
              </Select>
            </Field>
          </div>
        )}
        {draft.kind === "loop" && (
          <div className="grid gap-4 sm:grid-cols-3">
            <Field label="Pause between runs" hint="Such as 90s, 10m or 2h." problem={problems.pause}>
              <Input value={draft.pause} onChange={(e) => set({ pause: e.target.value })} autoComplete="off" />
            </Field>
            <Field label="Maximum runs" hint="Leave empty for no limit." problem={problems.maxRuns}>
              <Input inputMode="numeric" value={draft.maxRuns} onChange={(e) => set({ maxRuns: e.target.value })} autoComplete="off" />
            </Field>
            <Field label="Budget (USD)" hint="Total of all runs." problem={problems.budget}>
              <Input inputMode="decimal" value={draft.budget} onChange={(e) => set({ budget: e.target.value })} autoComplete="off" />
            </Field>
          </div>
        )}
        <Field label="Goal" hint="Optional: leave empty to follow the persona. {{ }} inserts a CEL expression, such as {{ payload.title }}.">
          <TextArea rows={4} value={draft.goal} onChange={(e) => set({ goal: e.target.value })} maxLength={8000} />
        </Field>
        <Field label="If a run is still active">
          <Select className="w-full" value={draft.overlap} onChange={(e) => set({ overlap: e.target.value })}>
            <option value="">{draft.kind === "cron" ? "Skip" : "Run in parallel"}</option>
            {draft.kind === "cron" ? <option value="allow">Run in parallel</option> : <option value="skip">Skip</option>}
            <option value="queue">Queue</option>
            <option value="replace">Replace the active run</option>
          </Select>
        </Field>
        <TryDraft draft={draft} />
        {error !== undefined && <Problem error={error} />}
        <div className="flex gap-2">
          <Button type="submit" look="primary" busy={busy}>
            Create trigger
          </Button>
          <Link to="/triggers" className="inline-flex min-h-8 items-center px-3 text-dim hover:text-ink">
            Cancel
          </Link>
        </div>
      </form>
    </Page>
  );
}

// Made shows the URL and the secret of a new trigger. The secret is shown only here.
function Made({ of, sender }: { of: CreateTriggerResponse; sender: string }) {
  const t = of.trigger;
  if (!t) return null;
  return (
    <Page title={`Trigger ${t.name} created`}>
      <div className="max-w-2xl space-y-4">
        {t.path && (
          <div className="space-y-1">
            <p className="text-sm font-medium">URL</p>
            <Id value={urlOf(t.path)} whole />
          </div>
        )}
        {of.secret && (
          <div className="space-y-1 rounded-md border border-warn bg-panel p-3">
            <p className="text-sm font-medium">Secret (give it to the sender)</p>
            <Id value={of.secret} whole className="break-all" />
            <p className="text-xs text-warn">You will not see this again.</p>
          </div>
        )}
        {t.path && setup[sender] && (
          <section aria-label="At the sender" className="space-y-1">
            <h2 className="text-sm font-medium">At the sender</h2>
            <ol className="list-decimal space-y-1 pl-5">
              {setup[sender].map((step) => (
                <li key={step}>{step}</li>
              ))}
            </ol>
          </section>
        )}
        {of.secret && sender === "json" && (
          <div className="space-y-1">
            <p className="text-sm font-medium">Try it</p>
            <Command text={`curl -d '{"hello":"there"}' '${urlOf(t.path)}?token=${of.secret}'`} />
          </div>
        )}
        {t.nextRuns.length > 0 && (
          <div className="space-y-1">
            <p className="text-sm font-medium">Next runs</p>
            <NextRuns of={t} />
          </div>
        )}
        <Link
          to="/triggers/$trigger"
          params={{ trigger: t.name }}
          className="inline-flex min-h-8 items-center rounded-md bg-accent px-3 font-medium text-accent-ink"
        >
          Open trigger
        </Link>
      </div>
    </Page>
  );
}
