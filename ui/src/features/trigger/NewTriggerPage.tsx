import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
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
import { emptyDraft, problemsOf, requestOf, type Draft } from "./draft";
import { NextRuns, urlOf } from "./parts";

const triggers = createClient(TriggerService, transport);
const route = getRouteApi("/shell/triggers/new");

const kinds: [Draft["kind"], string, string][] = [
  ["webhook", "Webhook", "when something sends a request to its URL"],
  ["cron", "Schedule", "at times"],
  ["loop", "Loop", "over and over, with a pause after each run"],
];

// NewTriggerPage makes a trigger for an agent that there is.
export function NewTriggerPage() {
  const { agent } = route.useSearch();
  const session = useSession();
  const queries = useQueryClient();
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
      await queries.invalidateQueries({ queryKey: ["connect-query", { serviceName: TriggerService.typeName }] });
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
        <Empty title="Triggers are made by others">Your role does not make triggers. An administrator can give you another one.</Empty>
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
          <legend className="pb-1 text-sm font-medium">It fires</legend>
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
            <option value="">{agents.isPending ? "Loading …" : "Choose one"}</option>
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
            <Field label="Sender" hint="Says how deliveries are proved and told apart.">
              <Select className="w-full" value={draft.sender} onChange={(e) => set({ sender: e.target.value })}>
                {senders.map(({ name, label }) => (
                  <option key={name} value={name}>
                    {label}
                  </option>
                ))}
              </Select>
            </Field>
            <Field label="Secret" hint="Only where the sender has issued one, as Slack and Stripe do. Otherwise the hub makes it.">
              <Input ref={secret} type="password" autoComplete="off" maxLength={500} />
            </Field>
            <Field label="Filter" hint="CEL that answers whether a delivery starts anything. Empty for all. It can be tried on what comes, later.">
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
            <Field label="Runs that no hub was there for">
              <Select className="w-full" value={draft.missed} onChange={(e) => set({ missed: e.target.value })}>
                <option value="">Are made up for once</option>
                <option value="skip">Are left out</option>
                <option value="all">Are all made up for, the newest ten</option>
              </Select>
            </Field>
          </div>
        )}
        {draft.kind === "loop" && (
          <div className="grid gap-4 sm:grid-cols-3">
            <Field label="Pause after a run" hint="Such as 90s, 10m or 2h." problem={problems.pause}>
              <Input value={draft.pause} onChange={(e) => set({ pause: e.target.value })} autoComplete="off" />
            </Field>
            <Field label="Stops after" hint="Runs; empty for no end." problem={problems.maxRuns}>
              <Input inputMode="numeric" value={draft.maxRuns} onChange={(e) => set({ maxRuns: e.target.value })} autoComplete="off" />
            </Field>
            <Field label="Stops at a cost of" hint="US dollars, of all its runs." problem={problems.budget}>
              <Input inputMode="decimal" value={draft.budget} onChange={(e) => set({ budget: e.target.value })} autoComplete="off" />
            </Field>
          </div>
        )}
        <Field label="Goal" hint="Empty for the persona's own instructions. {{ }} holds CEL, such as {{ payload.title }}.">
          <TextArea rows={4} value={draft.goal} onChange={(e) => set({ goal: e.target.value })} maxLength={8000} />
        </Field>
        <Field label="While the run before goes on">
          <Select className="w-full" value={draft.overlap} onChange={(e) => set({ overlap: e.target.value })}>
            <option value="">{draft.kind === "webhook" ? "Another starts beside it" : "Nothing is started"}</option>
            {draft.kind === "webhook" ? <option value="skip">Nothing is started</option> : <option value="allow">Another starts beside it</option>}
            <option value="queue">The next one waits for it</option>
            <option value="replace">It is ended for the next one</option>
          </Select>
        </Field>
        {error !== undefined && <Problem error={error} />}
        <div className="flex gap-2">
          <Button type="submit" look="primary" busy={busy}>
            Make it
          </Button>
          <Link to="/triggers" className="inline-flex min-h-8 items-center px-3 text-dim hover:text-ink">
            Cancel
          </Link>
        </div>
      </form>
    </Page>
  );
}

// Made says what the sender is to be given, which is the only time.
function Made({ of, sender }: { of: CreateTriggerResponse; sender: string }) {
  const t = of.trigger;
  if (!t) return null;
  return (
    <Page title={`${t.name} is there`}>
      <div className="max-w-2xl space-y-4">
        {t.path && (
          <div className="space-y-1">
            <p className="text-sm font-medium">Its URL</p>
            <Id value={urlOf(t.path)} whole />
          </div>
        )}
        {of.secret && (
          <div className="space-y-1 rounded-md border border-warn bg-panel p-3">
            <p className="text-sm font-medium">Its secret, which the sender is to be given</p>
            <Id value={of.secret} whole className="break-all" />
            <p className="text-xs text-warn">It is shown only this once.</p>
          </div>
        )}
        {of.secret && sender === "json" && (
          <div className="space-y-1">
            <p className="text-sm font-medium">Try it</p>
            <Command text={`curl -d '{"hello":"there"}' '${urlOf(t.path)}?token=${of.secret}'`} />
          </div>
        )}
        {t.nextRuns.length > 0 && (
          <div className="space-y-1">
            <p className="text-sm font-medium">Its next runs</p>
            <NextRuns of={t} />
          </div>
        )}
        <Link
          to="/triggers/$trigger"
          params={{ trigger: t.name }}
          className="inline-flex min-h-8 items-center rounded-md bg-accent px-3 font-medium text-accent-ink"
        >
          Open it
        </Link>
      </div>
    </Page>
  );
}
