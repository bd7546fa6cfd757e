import { Link } from "@tanstack/react-router";
import { Badge } from "@/components/Badge";
import { dollars } from "@/components/money";
import { AgentBadge, TaskBadge } from "@/components/state";
import { Cell, Row, Table } from "@/components/Table";
import { Literal } from "@/components/Literal";
import type { Agent, AgentSummary } from "@/gen/deckhand/v1/agent_pb";
import type { Task } from "@/gen/deckhand/v1/task_pb";
import { LastRun, RunButton, Waiting } from "./parts";
import { today, type Need } from "./need";

// AgentTable is the fleet in one line for each agent.
export function AgentTable(props: {
  agents: Agent[];
  tasksOf: ReadonlyMap<string, Task[]>;
  needs: ReadonlyMap<string, Need>;
  summaries: ReadonlyMap<string, AgentSummary>;
  selected: ReadonlySet<string>;
  onSelect: (id: string, on: boolean) => void;
}) {
  return (
    <Table label="Agents" head={["Select", "Agent", "Status", "Task", "Needs", "Last run", "Queued", "Today", ""]}>
      {props.agents.map((a) => {
        const task = props.tasksOf.get(a.id)?.[0];
        const summary = props.summaries.get(a.id);
        return (
          <Row key={a.id} selected={props.selected.has(a.id)}>
            <Cell>
              <input
                type="checkbox"
                aria-label={`Select ${a.name}`}
                className="size-4 accent-accent"
                checked={props.selected.has(a.id)}
                onChange={(e) => props.onSelect(a.id, e.target.checked)}
              />
            </Cell>
            <Cell className="whitespace-nowrap">
              <Link to="/agents/$agent" params={{ agent: a.name }} className="inline-flex min-h-6 items-center font-medium hover:underline">{a.name}</Link>
            </Cell>
            <Cell><AgentBadge status={a.status} reason={a.statusReason} /></Cell>
            <Cell>
              {task && (
                <span className="flex items-center gap-2">
                  <TaskBadge task={task} />
                  <Link to="/tasks/$task" params={{ task: task.id }} className="max-w-56 truncate hover:underline"><Literal text={task.title || task.goal || task.id} /></Link>
                </span>
              )}
            </Cell>
            <Cell><Waiting agent={a} need={props.needs.get(a.id)} /></Cell>
            <Cell><LastRun of={summary} /></Cell>
            <Cell>{summary && summary.queued > 0 ? <Badge tone="info">{summary.queued}</Badge> : "–"}</Cell>
            <Cell className="whitespace-nowrap">{dollars(today(summary))}</Cell>
            <Cell><RunButton agent={a} /></Cell>
          </Row>
        );
      })}
    </Table>
  );
}
