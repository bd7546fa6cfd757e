import { useQueryClient } from "@tanstack/react-query";
import { OctagonX, Pause, Play } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { agents as agentClient } from "@/features/agent/AgentHold";
import { may } from "@/features/session/queries";
import { control, killed, pause, resume } from "@/features/task/actions";
import { useEach } from "@/features/task/each";
import { AgentStatus, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { KillScope, type KilledTask } from "@/gen/deckhand/v1/control_pb";
import { TaskState, type Task } from "@/gen/deckhand/v1/task_pb";

// What a bulk action is for, as it was when the action was chosen: what comes or
// goes meanwhile changes nothing of it.
type Frozen = { agents: Agent[]; tasks: Task[] };

const hold = (a: Agent) => agentClient.pauseAgent({ agentId: a.id });
const release = (a: Agent) => agentClient.resumeAgent({ agentId: a.id });
const held = (a: Agent) => a.status === AgentStatus.PAUSED || a.status === AgentStatus.ERROR_SUSPENDED;

// Bulk acts on all agents that are selected, and on their tasks.
export function Bulk(props: { agents: Agent[]; tasks: Task[]; onClear: () => void }) {
  const queries = useQueryClient();
  const session = useSession();
  const [kill, setKill] = useState<Frozen>();
  const { busy, each } = useEach();
  const n = props.agents.length;
  if (n === 0) return null;
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
        onClick={() => void each("pause", "Paused", going, pause, resume)}
      >
        <Pause aria-hidden className="size-4" /> Pause {going.length}
      </Button>
      <Button
        small
        disabled={paused.length === 0}
        busy={busy === "resume"}
        onClick={() => void each("resume", "Resumed", paused, resume, pause)}
      >
        <Play aria-hidden className="size-4" /> Resume {paused.length}
      </Button>
      {may(session, "advanced") && (
        <Button
          small
          busy={busy === "hold"}
          onClick={() => void each("hold", "Scheduling paused", props.agents.filter((a) => !held(a)), hold, release)}
        >
          Pause scheduling
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
        title={`Kill all tasks of ${kill?.agents.length} ${kill?.agents.length === 1 ? "agent" : "agents"}`}
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
          Their {kill?.tasks.length} live tasks are cancelled and every process is killed. A hold keeps new tasks from
          starting until somebody releases it.
        </p>
        <ul className="list-inside list-disc font-mono text-xs">
          {kill?.agents.slice(0, 20).map((a) => <li key={a.id}>{a.name}</li>)}
          {(kill?.agents.length ?? 0) > 20 && <li>and {(kill?.agents.length ?? 0) - 20} more</li>}
        </ul>
      </Confirm>
    </div>
  );
}
