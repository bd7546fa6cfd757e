import { createClient } from "@connectrpc/connect";
import { newIdempotencyKey } from "@deckhand/sdk";
import { Link, useNavigate } from "@tanstack/react-router";
import { Play, Rocket } from "lucide-react";
import { useState } from "react";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { line } from "@/components/marks";
import { dollars } from "@/components/money";
import { showError } from "@/components/showError";
import { taskWord } from "@/components/state";
import { Time } from "@/components/Time";
import { useQuotaHint } from "@/features/history/Quotas";
import { Run } from "@/features/history/Run";
import { may } from "@/features/session/queries";
import type { Agent, AgentSummary } from "@/gen/deckhand/v1/agent_pb";
import { TaskService, TaskState } from "@/gen/deckhand/v1/task_pb";
import { today, type Need } from "./need";

const tasks = createClient(TaskService, transport);

// Waiting says what an agent needs of a person, and leads there.
export function Waiting({ agent, need }: { agent: Pick<Agent, "name" | "provider">; need: Need | undefined }) {
  if (!need || (need.itemId === undefined && !need.unconnected)) return null;
  return (
    <p className="flex flex-wrap items-center gap-x-2 text-xs text-warn">
      {need.itemId !== undefined && (
        <Link to="/inbox" search={{ item: need.itemId }} aria-label={`${need.words}: ${agent.name}`} className="inline-flex min-h-6 items-center font-medium underline">
          {need.words}
        </Link>
      )}
      {need.itemId !== undefined && need.since !== undefined && <span>since <Time at={need.since} /></span>}
      {need.unconnected && (
        <span>
          Provider {agent.provider} is not connected.{" "}
          <Link to="/providers" className="inline-flex min-h-6 items-center underline">Connect {agent.provider}</Link>
        </span>
      )}
    </p>
  );
}

// LastRun is how the run that ended last ended, when, and what it cost.
export function LastRun({ of }: { of: AgentSummary | undefined }) {
  if (!of?.lastTaskId) return <span className="text-xs text-dim">No runs yet</span>;
  return (
    <Link to="/tasks/$task" params={{ task: of.lastTaskId }} className="inline-flex min-h-6 items-center gap-1 text-xs text-dim hover:underline">
      <span>Last run <Time at={of.lastFinishedAt} /></span>
      <span className={of.lastState === TaskState.SUCCEEDED ? "text-good" : of.lastState === TaskState.CANCELLED ? "" : "text-bad"}>· {taskWord(of.lastState)}</span>
      <span>· {dollars(of.lastCostMicros)}</span>
    </Link>
  );
}

// Week is what an agent spent today, with a bar for each of the last seven days.
export function Week({ of }: { of: AgentSummary | undefined }) {
  if (!of) return null;
  const values = of.dayCostMicros.map(Number);
  const top = Math.max(...values, 0);
  if (top === 0) return null;
  return (
    <span className="inline-flex items-center gap-1.5" title={`Last seven days: ${of.dayCostMicros.map(dollars).join(", ")}`}>
      <svg role="img" aria-label={`Spend of the last seven days, up to ${dollars(top)} a day`} width={42} height={16} className="text-accent">
        {values.map((v, i) => (
          <rect key={i} x={i * 6} width={4} y={16 - Math.max(v > 0 ? 1.5 : 0, (v / top) * 16)} height={Math.max(v > 0 ? 1.5 : 0, (v / top) * 16)} fill="currentColor" />
        ))}
      </svg>
      {dollars(today(of))} today
    </span>
  );
}

// GoalButton runs an agent with the goal of its persona, if it has one.
export function GoalButton({ agent }: { agent: Pick<Agent, "id" | "name" | "goal"> }) {
  const session = useSession();
  const navigate = useNavigate();
  const [busy, setBusy] = useState(false);
  const quota = useQuotaHint();
  // A second click on the same card starts one task only, until the first has answered.
  if (!agent.goal || !may(session, "basic")) return null;
  const play = async () => {
    setBusy(true);
    try {
      const { task } = await tasks.submitTask({ agentId: agent.id, idempotencyKey: newIdempotencyKey() });
      if (task) await navigate({ to: "/tasks/$task", params: { task: task.id } });
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button
      small
      look="primary"
      busy={busy}
      aria-label={`Play ${agent.name}`}
      aria-description={quota?.text}
      title={quota ? `${line(agent.goal)}\n${quota.text}` : line(agent.goal)}
      onClick={() => void play()}
    >
      <Play aria-hidden className="size-3.5" /> Play{quota?.usedUp && " (no quota left)"}
    </Button>
  );
}

// RunButton starts a task of an agent.
export function RunButton({ agent }: { agent: Pick<Agent, "id" | "name"> }) {
  const session = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState(false);
  if (!may(session, "basic")) return null;
  return (
    <>
      <Button small aria-label={`Run ${agent.name}`} onClick={() => setOpen(true)}>
        <Rocket aria-hidden className="size-3.5" /> Run
      </Button>
      {open && <Run agent={agent} onClose={() => setOpen(false)} started={(task) => void navigate({ to: "/tasks/$task", params: { task } })} />}
    </>
  );
}
