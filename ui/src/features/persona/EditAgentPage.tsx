import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { Select } from "@/components/Field";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeleton, Skeletons } from "@/components/Skeleton";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { Draft, type Text } from "./Draft";

const Comparison = lazy(() => import("@/components/Comparison").then((m) => ({ default: m.Comparison })));
const route = getRouteApi("/shell/agents/$agent/edit");

// EditAgentPage changes an agent: what is deployed is a new version. A version
// of the address is compared with the draft.
export function EditAgentPage() {
  const { agent: name } = route.useParams();
  const { version } = route.useSearch();
  const navigate = route.useNavigate();
  const found = useQuery(AgentService.method.getAgent, { agentId: name, version: 0 });
  if (found.isPending) {
    return (
      <Page title={name}>
        <Skeletons rows={10} />
      </Page>
    );
  }
  if (found.error || !found.data.agent || !found.data.version) {
    return (
      <Page title={name}>
        <Problem error={found.error ?? new Error("Agent not found.")} retry={() => void found.refetch()} />
      </Page>
    );
  }
  const newest = found.data.agent.version;
  return (
    <Draft
      key={found.data.agent.id}
      title={`Edit ${found.data.agent.name}`}
      from={{ markdown: found.data.version.markdown, script: found.data.version.script }}
      deployed={newest}
      actions={() => (
        <Select
          aria-label="Compare with version"
          value={version ?? ""}
          onChange={(e) => void navigate({ search: { version: Number(e.target.value) || undefined }, replace: true })}
        >
          <option value="">Edit</option>
          {Array.from({ length: newest }, (_, i) => newest - i).map((v) => (
            <option key={v} value={v}>
              Compare with version {v}
              {v === newest ? " (deployed)" : ""}
            </option>
          ))}
        </Select>
      )}
      instead={version ? (draft) => <Versions agent={name} version={version} draft={draft} /> : undefined}
      onDone={() => undefined}
    />
  );
}

function Versions(props: { agent: string; version: number; draft: Text }) {
  const found = useQuery(AgentService.method.getAgent, { agentId: props.agent, version: props.version });
  if (found.error) return <Problem error={found.error} retry={() => void found.refetch()} />;
  const before = found.data?.version;
  if (!before) return <Skeleton className="h-full w-full" />;
  if (before.markdown === props.draft.markdown) {
    return <p className="p-4 text-dim">No changes since version {props.version}.</p>;
  }
  return (
    <Suspense fallback={<Skeleton className="h-full w-full" />}>
      <Comparison before={before.markdown} after={props.draft.markdown} label={`Changes since version ${props.version}`} />
    </Suspense>
  );
}
