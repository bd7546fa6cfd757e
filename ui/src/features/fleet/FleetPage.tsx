import { useQuery } from "@connectrpc/connect-query";
import { Empty } from "@/components/Empty";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { AgentBadge } from "@/components/state";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";

// FleetPage shows every agent.
export function FleetPage() {
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  return (
    <Page title="Fleet">
      {agents.isPending ? (
        <Skeletons rows={4} className="h-40 w-full" />
      ) : agents.error ? (
        <Problem error={agents.error} retry={() => void agents.refetch()} />
      ) : agents.data.agents.length === 0 ? (
        <Empty title="No agent yet" command="deckhand agent apply -f personas/">
          An agent is one Markdown file. Apply one, and it stands here.
        </Empty>
      ) : (
        <ul className="grid grid-cols-[repeat(auto-fill,minmax(20rem,1fr))] gap-3">
          {agents.data.agents.map((a) => (
            <li key={a.id} className="rounded-lg border bg-panel p-3">
              <div className="flex items-center gap-2">
                <h2 className="flex-1 truncate font-semibold">{a.name}</h2>
                <AgentBadge status={a.status} reason={a.statusReason} />
              </div>
              <p className="text-dim">{a.description}</p>
            </li>
          ))}
        </ul>
      )}
    </Page>
  );
}
