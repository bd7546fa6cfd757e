import { useQueryClient } from "@tanstack/react-query";
import { OctagonX } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { agents as agentClient } from "@/features/agent/AgentHold";
import { may } from "@/features/session/queries";
import { control, killed } from "@/features/task/actions";
import { BulkBar } from "@/features/task/BulkBar";
import { useEach } from "@/features/task/each";
import { AgentStatus, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { KillScope, type KilledTask } from "@/gen/deckhand/v1/control_pb";
import type { Task } from "@/gen/deckhand/v1/task_pb";

// Frozen is the selection at the time when an action was chosen. Later changes of the
// fleet do not affect it.
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
  return (
    <BulkBar
      label="Selected agents"
      summary={`${n} selected, ${props.tasks.length} live ${props.tasks.length === 1 ? "task" : "tasks"}`}
      tasks={props.tasks}
      onClear={props.onClear}
    >
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
          let setups = 0;
          for (const a of kill?.agents ?? []) {
            const res = await control.kill({ scope: KillScope.AGENT, objectId: a.id, reason });
            all.push(...res.tasks);
            setups += res.setups.length;
          }
          const ended = setups > 0 ? `. Ended ${setups} ${setups === 1 ? "setup" : "setups"} of images` : "";
          toast(`Killed ${kill?.agents.length} agents`, { description: killed(all) + ended });
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
    </BulkBar>
  );
}
