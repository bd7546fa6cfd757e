import { create } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Samples } from "@/features/node/samples";
import { UsageCharts, UsageEvents } from "@/features/node/UsageCharts";
import { NodeTelemetryService, WatchNodeTelemetryResponseSchema, type JailTelemetry } from "@/gen/deckhand/v1/node_telemetry_pb";

// How often nodes keep a sample, in milliseconds.
const sampled = 15_000;

// AgentUsage shows what the jails of an agent use, and have used in the last hour.
export function AgentUsage({ agentId }: { agentId: string }) {
  const { data, error, isPending, refetch } = useQuery(NodeTelemetryService.method.getAgentTelemetry, { agentId }, { refetchInterval: sampled });
  if (isPending) return <Skeletons rows={2} className="h-40 w-full" />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (data.jails.length === 0) return <Empty title="No jail yet">A jail is created when the first task starts.</Empty>;
  return data.jails.map((jail) => <Jail key={`${jail.jailId} ${jail.nodeId}`} jail={jail} />);
}

function Jail({ jail }: { jail: JailTelemetry }) {
  const samples = useMemo(() => {
    const all = new Samples();
    for (const { time, usage } of jail.samples) all.add(create(WatchNodeTelemetryResponseSchema, { time, jails: usage ? [usage] : [] }));
    return all;
  }, [jail]);
  return (
    <Section title={jail.taskId ? "Jail of a task" : "Jail"}>
      <p className="flex flex-wrap items-center gap-3 pb-2 text-xs text-dim">
        <Id value={jail.jailId} />
        <Link to="/nodes/$nodeId" params={{ nodeId: jail.nodeId }} className="text-accent hover:underline">
          <Literal text={jail.nodeName || jail.nodeId} />
        </Link>
        {jail.taskId && (
          <Link to="/tasks/$task" params={{ task: jail.taskId }} className="text-accent hover:underline">
            {jail.taskId}
          </Link>
        )}
      </p>
      {jail.problem ? (
        <p className="text-warn">
          <Literal text={jail.problem} />
        </p>
      ) : jail.samples.length === 0 ? (
        <p className="text-dim">It has not run in the last hour.</p>
      ) : (
        <UsageCharts samples={samples} jail={jail.jailId} />
      )}
      <UsageEvents events={jail.events.toReversed()} />
    </Section>
  );
}
