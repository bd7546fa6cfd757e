import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { Literal } from "@/components/Literal";
import { dollars } from "@/components/money";
import { Skeletons } from "@/components/Skeleton";
import { final } from "@/components/state";
import { Cell, Row, Table } from "@/components/Table";
import { Likely } from "@/features/history/Likely";
import { against } from "@/features/history/words";
import { HistoryService } from "@/gen/deckhand/v1/history_pb";
import { TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import type { TaskView } from "@/live/store";
import { TaskBudget } from "./TaskBudget";
import { costsOf, type Cost as Costs } from "./turncost";
import { useWhole } from "./Timeline";

const number = (n: number) => n.toLocaleString("en");

// Cost shows what a task's calls of models cost: by model, by turn, and by the tasks
// that it gave to others.
export function Cost(props: { task: Task; view: TaskView }) {
  const { task, view } = props;
  const whole = useWhole(task, view);
  const { data: before } = useQuery(HistoryService.method.getEstimate, { agentId: "", taskId: task.id });
  const children = useQuery(TaskService.method.listTasks, { parentId: task.id, pageSize: 100 });
  const total = Number(task.usage?.costMicros ?? 0n);
  const { version } = view;
  // The array of events is the same one, which grows.
  const costs = useMemo(() => costsOf(view.events, total), [view.events, version, total]);
  if (!whole) return <Skeletons rows={6} />;
  const below = Number(task.subtasks?.usage?.costMicros ?? 0n);
  return (
    <div className="space-y-6">
      <p className="text-base">
        <span className="font-semibold" data-testid="cost-total">{dollars(total + below)}</span>
        {below > 0 && <span className="text-dim"> · {dollars(total)} by itself, {dollars(below)} by its subtasks</span>}
        {against(total, before?.estimate) && <span className="text-warn"> · {against(total, before?.estimate)}</span>}
      </p>
      <TaskBudget taskId={task.id} live={!final(task.state)} />
      <Likely taskId={task.id} />
      <Group title="By model" first="Model" of={costs.models} />
      <Group title="By turn" first="Turn" of={costs.turns} />
      {children.data && children.data.tasks.length > 0 && (
        <section className="space-y-2">
          <h2 className="font-semibold">Subtasks</h2>
          <Table label="Subtasks" head={["Task", "Agent", "Cost"]}>
            {children.data.tasks.map((t) => (
              <Row key={t.id}>
                <Cell>
                  <Link to="/tasks/$task" params={{ task: t.id }} search={{ tab: "cost" }} className="text-accent hover:underline">
                    <Literal text={t.title || t.goal} />
                  </Link>
                </Cell>
                <Cell>{t.agentName}</Cell>
                <Cell>{dollars((t.usage?.costMicros ?? 0n) + (t.subtasks?.usage?.costMicros ?? 0n))}</Cell>
              </Row>
            ))}
          </Table>
        </section>
      )}
    </div>
  );
}

function Group(props: { title: string; first: string; of: Costs[] }) {
  if (props.of.length === 0) return null;
  return (
    <section className="space-y-2">
      <h2 className="font-semibold">{props.title}</h2>
      <div className="max-h-96 overflow-auto" tabIndex={0} role="group" aria-label={props.title}>
        <Table label={props.title} head={[props.first, "Input", "From cache", "Output", "Cost"]}>
          {props.of.map((c) => (
            <Row key={c.name}>
              <Cell><Literal text={c.name} /></Cell>
              <Cell>{number(c.input)}</Cell>
              <Cell>{number(c.cached)}</Cell>
              <Cell>{number(c.output)}</Cell>
              <Cell>{dollars(c.micros)}</Cell>
            </Row>
          ))}
        </Table>
      </div>
    </section>
  );
}
