import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Check, X } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Problem } from "@/components/Problem";
import { Run } from "@/features/history/Run";
import { ConnectProvider } from "@/features/provider/ConnectProvider";
import { may } from "@/features/session/queries";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { stepsOf, type Step } from "./steps";

const agents = createClient(AgentService, transport);

// In this browser: the steps were closed, or a script was chosen instead of a model.
const closedKey = "deckhand.start.closed";
const scriptedKey = "deckhand.start.scripted";

// FirstSteps leads through the first hour: connect a model, take an agent, run it,
// look at the result. Each step says how it stands; all are gone when a task has
// ended, or when somebody closes them.
export function FirstSteps() {
  const session = useSession();
  const navigate = useNavigate();
  const [closed, setClosed] = useState(() => localStorage.getItem(closedKey) !== null);
  const [scripted, setScripted] = useState(() => localStorage.getItem(scriptedKey) !== null);
  const [connecting, setConnecting] = useState(false);
  const [running, setRunning] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const on = { enabled: !closed };
  const providers = useQuery(ProviderService.method.listProviders, { pageSize: 1 }, on);
  const known = useQuery(AgentService.method.listAgents, { pageSize: 500 }, on);
  const tasks = useQuery(TaskService.method.listTasks, { pageSize: 20 }, on);
  const refreshAgents = useRefresh(AgentService);
  const refreshProviders = useRefresh(ProviderService);
  if (closed || !providers.data || !known.data || !tasks.data) return null;
  const { steps, next, over } = stepsOf({
    provider: providers.data.providers[0]?.name,
    scripted,
    agents: known.data.agents.map((a) => ({ name: a.name, provider: a.provider })),
    tasks: tasks.data.tasks.map((t) => t.state),
  });
  if (over) return null;
  const agent = known.data.agents.find((a) => a.name === steps.run.about) ?? known.data.agents[0];
  const newest = tasks.data.tasks[0];
  const take = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { starters } = await import("@/features/persona/starters");
      const first = starters.find((s) => s.name === "first-look");
      if (!first) throw new Error("The template first-look is missing.");
      await agents.applyAgent({ markdown: first.markdown, script: first.script, filename: "first-look.md" });
      await refreshAgents();
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section aria-labelledby="first-steps" className="rounded-lg border bg-panel p-4">
      <div className="flex items-start gap-2">
        <div className="flex-1">
          <h2 id="first-steps" className="text-base font-semibold">
            Get started
          </h2>
          <p className="text-dim">Four steps to the first result of an agent.</p>
        </div>
        <Button
          small
          look="quiet"
          aria-label="Close the first steps"
          onClick={() => {
            localStorage.setItem(closedKey, "1");
            setClosed(true);
          }}
        >
          <X aria-hidden className="size-4" />
        </Button>
      </div>
      {error !== undefined && <Problem error={error} />}
      <ol className="grid gap-3 pt-3 md:grid-cols-2 xl:grid-cols-4">
        <Item n={1} step={steps.connect} current={next === "connect"} title="Connect a model">
          {may(session, "admin") && <Button look="primary" onClick={() => setConnecting(true)}>Connect a model</Button>}
          <Button
            onClick={() => {
              localStorage.setItem(scriptedKey, "1");
              setScripted(true);
            }}
          >
            Use the scripted one
          </Button>
        </Item>
        <Item n={2} step={steps.take} current={next === "take"} title="Take an agent">
          {may(session, "advanced") ? (
            <>
              <Button look="primary" busy={busy} onClick={() => void take()}>
                Take first-look
              </Button>
              <Link to="/agents/new" className="inline-flex min-h-8 items-center rounded-md border px-3 text-sm font-medium hover:bg-raised">
                Choose another
              </Link>
            </>
          ) : (
            <p className="text-dim">Ask somebody with the role &quot;advanced&quot;.</p>
          )}
        </Item>
        <Item n={3} step={steps.run} current={next === "run"} title="Run it">
          {agent && may(session, "basic") && (
            <Button look="primary" onClick={() => setRunning(true)}>
              Run {agent.name}
            </Button>
          )}
        </Item>
        <Item n={4} step={steps.look} current={next === "look"} title="Look at the result">
          {newest && (
            <Link
              to="/tasks/$task"
              params={{ task: newest.id }}
              className="inline-flex min-h-8 items-center rounded-md bg-accent px-3 text-sm font-medium text-accent-ink"
            >
              Open the task
            </Link>
          )}
        </Item>
      </ol>
      {connecting && <ConnectProvider name="" baseUrl="" onClose={() => setConnecting(false)} done={refreshProviders} />}
      {running && agent && (
        <Run
          agent={agent}
          onClose={() => setRunning(false)}
          started={(task) => void navigate({ to: "/tasks/$task", params: { task } })}
        />
      )}
    </section>
  );
}

function Item(props: { n: number; step: Step; current: boolean; title: string; children: ReactNode }) {
  const { step, current } = props;
  return (
    <li className={cx("flex flex-col gap-2 rounded-md border p-3", current && "border-accent")} aria-current={current ? "step" : undefined}>
      <div className="flex items-center gap-2">
        <span
          aria-hidden
          className={cx("grid size-6 shrink-0 place-items-center rounded-full border text-xs font-semibold", step.done ? "border-good text-good" : current && "border-accent text-accent")}
        >
          {step.done ? <Check className="size-3.5" /> : props.n}
        </span>
        <h3 className="font-semibold">{props.title}</h3>
      </div>
      <p className="flex-1 text-dim">{step.says}</p>
      {current && <div className="flex flex-wrap gap-2">{props.children}</div>}
    </li>
  );
}
