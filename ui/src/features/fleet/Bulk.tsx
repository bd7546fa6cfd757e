import { useQueryClient } from "@tanstack/react-query";
import { OctagonX, Pause, Play } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { problemOf } from "@/api/error";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { agents as agentClient } from "@/features/agent/AgentHold";
import { may } from "@/features/session/queries";
import { control, killed, tasks as taskClient } from "@/features/task/actions";
import type { Agent } from "@/gen/deckhand/v1/agent_pb";
import { KillScope, type KilledTask } from "@/gen/deckhand/v1/control_pb";
import { TaskState, type Task } from "@/gen/deckhand/v1/task_pb";

// What a bulk action is for, as it was when the action was chosen: what comes or
// goes meanwhile changes nothing of it.
type Frozen = { agents: Agent[]; tasks: Task[] };

// Bulk acts on all agents that are selected, and on their tasks.
export function Bulk(props: { agents: Agent[]; tasks: Task[]; onClear: () => void }) {
  const queries = useQueryClient();
  const session = useSession();
  const [kill, setKill] = useState<Frozen>();
  const [busy, setBusy] = useState("");
  const n = props.agents.length;
  if (n === 0) return null;
  const each = async (name: string, what: string, calls: (() => Promise<unknown>)[]) => {
    setBusy(name);
    const done = await Promise.allSettled(calls.map((call) => call()));
    const failed = done.filter((d) => d.status === "rejected");
    const words = `${what}: ${done.length - failed.length} of ${done.length}`;
    if (failed[0]) toast.error(words, { description: problemOf(failed[0].reason).message });
    else toast(words);
    await queries.invalidateQueries();
    setBusy("");
  };
  const paused = props.tasks.filter((t) => t.state === TaskState.PAUSED);
  const going = props.tasks.filter((t) => t.state !== TaskState.PAUSED);
  return (
    <div role="region" aria-label="Selected agents" className="sticky top-0 z-10 flex flex-wrap items-center gap-2 rounded-md border border-accent bg-panel p-2">
      <span className="font-medium">
        {n} selected, {props.tasks.length} live {props.tasks.length === 1 ? "task" : "tasks"}
      </span>
      <span className="flex-1" />
      <Button
        small
        disabled={going.length === 0}
        busy={busy === "pause"}
        onClick={() => void each("pause", "Paused", going.map((t) => () => taskClient.pauseTask({ taskId: t.id })))}
      >
        <Pause aria-hidden className="size-4" /> Pause {going.length}
      </Button>
      <Button
        small
        disabled={paused.length === 0}
        busy={busy === "resume"}
        onClick={() => void each("resume", "Resumed", paused.map((t) => () => taskClient.resumeTask({ taskId: t.id })))}
      >
        <Play aria-hidden className="size-4" /> Resume {paused.length}
      </Button>
      {may(session, "advanced") && (
        <Button
          small
          busy={busy === "hold"}
          onClick={() => void each("hold", "Held", props.agents.map((a) => () => agentClient.pauseAgent({ agentId: a.id })))}
        >
          Hold new tasks
        </Button>
      )}
      {may(session, "admin") && (
        <Button small look="danger" onClick={() => setKill({ agents: props.agents, tasks: props.tasks })}>
          <OctagonX aria-hidden className="size-4" /> Kill
        </Button>
      )}
      <Button small look="quiet" onClick={props.onClear}>
        Clear
      </Button>
      <Confirm
        open={kill !== undefined}
        onClose={() => setKill(undefined)}
        title={`Kill everything of ${kill?.agents.length} agents`}
        action="Kill"
        danger
        reason
        typed={`kill ${kill?.agents.length}`}
        run={async (reason) => {
          const all: KilledTask[] = [];
          for (const a of kill?.agents ?? []) {
            const res = await control.kill({ scope: KillScope.AGENT, objectId: a.id, reason });
            all.push(...res.tasks);
          }
          toast(`Killed ${kill?.agents.length} agents`, { description: killed(all) });
          await queries.invalidateQueries();
        }}
      >
        <p>
          Their {kill?.tasks.length} live tasks end, every process is killed, and a hold keeps anything of them from
          starting until it is released.
        </p>
        <ul className="list-inside list-disc font-mono text-xs">
          {kill?.agents.slice(0, 20).map((a) => <li key={a.id}>{a.name}</li>)}
          {(kill?.agents.length ?? 0) > 20 && <li>and {(kill?.agents.length ?? 0) - 20} more</li>}
        </ul>
      </Confirm>
    </div>
  );
}
