import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { Badge } from "@/components/Badge";
import { Literal, LiteralBlock, Prose } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { absolute } from "@/components/Time";
import { EventService } from "@/gen/deckhand/v1/event_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { liveEvent } from "@/live/event";
import { stateOf, type ThreadRow } from "./history";

// Details shows the whole of what a row of the thread is about, as far as it had come.
export function Details(props: { taskId: string; row: ThreadRow | undefined; at: number }) {
  const { taskId, row, at } = props;
  if (!row) return null;
  return row.kind === "step" ? <StepDetails taskId={taskId} row={row} at={at} /> : <EventDetails taskId={taskId} row={row} />;
}

function StepDetails({ taskId, row, at }: { taskId: string; row: ThreadRow; at: number }) {
  const { data, error, isPending } = useQuery(
    TaskService.method.listSteps,
    { taskId, stepId: row.stepId },
    { staleTime: Infinity },
  );
  if (isPending) return <Skeletons rows={5} />;
  if (error) return <Problem error={error} />;
  const step = data.steps[0];
  if (!step) return <p className="text-dim">The step is not stored any more.</p>;
  const ended = (row.changes.at(-1)?.at ?? row.from) <= at;
  return (
    <div className="space-y-3">
      <h2 className="flex flex-wrap items-center gap-2 font-semibold">
        Step {step.number} <Literal className="font-mono text-sm" text={step.tool} /> <Badge>{stateOf(row, at)}</Badge>
      </h2>
      {step.reasoning && <p><Prose text={step.reasoning} /></p>}
      {Object.entries(step.arguments ?? {}).map(([name, value]) => (
        <section key={name} className="space-y-1">
          <h3 className="text-xs text-dim"><Literal text={name} /></h3>
          <LiteralBlock label={`Argument ${name}`} text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} />
        </section>
      ))}
      {step.decisionReason && <p className="text-xs text-dim"><Literal text={step.decisionReason} /></p>}
      {ended && step.observation && (
        <section className="space-y-1">
          <h3 className="text-xs text-dim">Result as the model saw it</h3>
          <LiteralBlock label="Result" text={step.observation} />
        </section>
      )}
    </div>
  );
}

function EventDetails({ taskId, row }: { taskId: string; row: ThreadRow }) {
  const { data, error, isPending } = useQuery(
    EventService.method.listEvents,
    { taskId, beforeSeq: BigInt(row.seq + 1), pageSize: 1 },
    { staleTime: Infinity },
  );
  if (isPending) return <Skeletons rows={5} />;
  if (error) return <Problem error={error} />;
  const event = data.events[0] && liveEvent(data.events[0]);
  if (!event) return <p className="text-dim">The event was deleted by retention.</p>;
  const subtask = event.type.startsWith("agent.subtask") || event.type === "agent.handed_over" ? event.payload.task_id : undefined;
  return (
    <div className="space-y-3">
      <h2 className="font-semibold">{row.kind === "turn" ? `Turn ${row.turn}` : row.kind === "message" ? `Message from ${String(event.payload.by ?? "")}` : event.type}</h2>
      <p className="text-xs text-dim">{absolute(event.time)}</p>
      {typeof event.payload.text === "string" && <p><Prose text={event.payload.text} /></p>}
      {typeof subtask === "string" && (
        <Link to="/tasks/$task" params={{ task: subtask }} className="font-mono text-xs text-accent hover:underline">{subtask}</Link>
      )}
      {row.kind !== "turn" && row.kind !== "message" && <LiteralBlock label="Event" text={JSON.stringify(event.payload, null, 2)} />}
    </div>
  );
}
