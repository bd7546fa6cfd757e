import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { Literal } from "@/components/Literal";
import { bytes, count, dollars } from "@/components/money";
import { Sparkline } from "@/components/Sparkline";
import { AgentBadge, TaskBadge } from "@/components/state";
import { Time, useNow } from "@/components/Time";
import { AgentFace } from "@/features/agent/AgentFace";
import { AgentHold } from "@/features/agent/AgentHold";
import { AgentNodes } from "@/features/agent/AgentNodes";
import { TaskControls } from "@/features/task/actions";
import type { Agent, AgentSummary } from "@/gen/deckhand/v1/agent_pb";
import type { Task } from "@/gen/deckhand/v1/task_pb";
import type { Need } from "./need";
import { GoalButton, LastRun, RunButton, Waiting, Week } from "./parts";
import { going, useFigures, useTurns, type Pace, type Samples } from "./figures";

// AgentCard shows one agent: its name, status, current task, usage and cost, and
// the buttons that control it.
export const AgentCard = memo(function AgentCard(props: {
  agent: Agent;
  // Its current task; undefined when it is idle.
  task: Task | undefined;
  // How many of its tasks have not ended.
  live: number;
  triggers: readonly string[];
  need: Need | undefined;
  summary: AgentSummary | undefined;
  samples: Samples;
  pace: Pace;
  selected: boolean;
  onSelect: (id: string, selected: boolean) => void;
}) {
  const { agent, task } = props;
  return (
    <article
      aria-label={agent.name}
      data-status={agent.status}
      className="flex h-full flex-col gap-2 rounded-lg border bg-panel p-3"
    >
      <header className="flex items-center gap-2">
        <input
          type="checkbox"
          aria-label={`Select ${agent.name}`}
          className="size-4 accent-accent"
          checked={props.selected}
          onChange={(e) => props.onSelect(agent.id, e.target.checked)}
        />
        <AgentFace agent={agent} />
        <div className="min-w-0 flex-1">
          <h3 className="truncate font-semibold">
            <Link to="/agents/$agent" params={{ agent: agent.name }} className="hover:underline">
              {agent.name}
            </Link>
          </h3>
          <p className="truncate text-xs text-dim">
            {agent.title && <span className="font-medium"><Literal text={agent.title} /> · </span>}
            <Literal text={agent.description} />
          </p>
        </div>
        <AgentBadge status={agent.status} reason={agent.statusReason} />
      </header>
      {agent.statusReason && (
        <p className="text-xs break-words text-warn">
          <Literal text={agent.statusReason} /> {agent.statusSince && <Time at={agent.statusSince} />}
        </p>
      )}
      <p className="flex flex-wrap gap-x-3 text-xs text-dim">
        <span>{agent.provider === "script" ? "script" : agent.model}</span>
        <AgentNodes agent={agent} />
        {agent.hubAccess && <span title="Programs in its jail may call the hub for their task">hub access</span>}
        {agent.visibility !== "organisation" && <span>{agent.visibility}</span>}
        {props.triggers.length > 0 && <span>{props.triggers.join(", ")}</span>}
        {props.summary && props.summary.queued > 0 && <span className="text-info">{props.summary.queued} queued</span>}
        <Week of={props.summary} />
      </p>
      <Waiting agent={agent} need={props.need} />
      <Usage agent={agent.name} idle={!task} samples={props.samples} />
      {task ? (
        <div className="mt-auto space-y-1.5 border-t pt-2">
          <p className="flex items-center gap-2">
            <Link to="/tasks/$task" params={{ task: task.id }} className="min-w-0 flex-1 truncate hover:underline">
              <Literal text={task.title || task.goal || task.id} />
            </Link>
            <TaskBadge task={task} />
          </p>
          <div className="flex items-center gap-3 text-xs text-dim">
            <Going task={task} pace={props.pace} />
            {props.live > 1 && <span>{props.live} tasks</span>}
            <span className="flex-1" />
            <TaskControls task={task} small />
          </div>
        </div>
      ) : (
        <div className="mt-auto flex items-center gap-2 border-t pt-2 text-xs text-dim">
          <span className="min-w-0 flex-1"><LastRun of={props.summary} /></span>
          <GoalButton agent={agent} />
          <RunButton agent={agent} />
          <AgentHold agent={agent} small />
        </div>
      )}
    </article>
  );
});

// Usage is what an agent's jails use now; nothing of an idle one that has none.
function Usage(props: { agent: string; idle: boolean; samples: Samples }) {
  const { cpu, memory, memoryLimit } = useFigures(props.samples, `agent ${props.agent}`);
  const lastCpu = cpu.at(-1) ?? 0;
  const lastMemory = memory.at(-1) ?? 0;
  if (props.idle && lastCpu === 0 && lastMemory === 0) return null;
  return (
    <div className="flex items-center gap-4 text-xs text-dim">
      <span className="flex items-center gap-1.5">
        <Sparkline values={cpu} max={1000} label={`CPU ${(lastCpu / 1000).toFixed(2)}`} /> {(lastCpu / 1000).toFixed(2)} CPU
      </span>
      <span className="flex items-center gap-1.5">
        <Sparkline values={memory} max={memoryLimit} label={`Memory ${bytes(lastMemory)}`} /> {bytes(lastMemory)}
      </span>
    </div>
  );
}

function Going(props: { task: Task; pace: Pace }) {
  const turns = useTurns(props.pace, props.task.id);
  const { iteration, costMicros, tokens } = going(props.task, turns, useNow());
  return (
    <>
      <span className="whitespace-nowrap">
        {iteration} {iteration === 1 ? "iteration" : "iterations"}
      </span>
      <span className="whitespace-nowrap" title="Tokens in the last minute">
        {count(tokens)} tokens/min
      </span>
      <span>{dollars(costMicros)}</span>
    </>
  );
}
