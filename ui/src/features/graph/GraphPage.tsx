import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo, useRef } from "react";
import { byToken, useRest } from "@/api/pages";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { useLive } from "@/live/context";
import { edgesOf, layout, type GraphEdge, type GraphNode } from "./graph";

const Canvas = lazy(() => import("./Canvas").then((m) => ({ default: m.Canvas })));
const route = getRouteApi("/shell/graph");
const often = 500;
const wakes = new Set(["state_changed", "agent.subtask.created", "agent.subtask.ended", "agent.handed_over", "iteration_complete"]);

// GraphPage shows agents and triggers, who gives work to whom, and who waits.
export function GraphPage() {
  const { view, used = false } = route.useSearch();
  const navigate = route.useNavigate();
  const go = useNavigate();
  const agents = useInfiniteQuery(AgentService.method.listAgents, { pageSize: 500, pageToken: "" }, byToken);
  useRest(agents);
  // Tokens of the last minutes change by time alone.
  const graph = useQuery(AgentService.method.getAgentGraph, {}, { refetchInterval: 10_000 });
  useWake(graph.refetch);
  const all = useMemo(() => agents.data?.pages.flatMap((p) => p.agents) ?? [], [agents.data]);
  const edges = useMemo(() => edgesOf(graph.data?.edges ?? [], graph.data?.triggers ?? [], used), [graph.data, used]);
  // The layout stays while only figures change.
  const shape = edges.map((e) => e.id).join("\n");
  const nodes = useMemo(() => layout(all, graph.data?.triggers ?? [], edges), [all, shape]); // eslint-disable-line
  const error = agents.error ?? graph.error;
  const open = (n: GraphNode) => void (n.kind === "agent" ? go({ to: "/agents/$agent", params: { agent: n.name } }) : go({ to: "/triggers/$trigger", params: { trigger: n.name } }));
  const tasksOf = (e: GraphEdge) => void go({ to: "/tasks", search: { agent: nameOf(e.to) } });
  return (
    <Page
      full
      title="Graph"
      actions={
        <>
          <label className="flex items-center gap-2 text-sm">
            <input type="checkbox" className="size-4 accent-accent" checked={used} onChange={(e) => void navigate({ search: (s) => ({ ...s, used: e.target.checked || undefined }), replace: true })} />
            Only edges with tasks
          </label>
          <Button onClick={() => void navigate({ search: (s) => ({ ...s, view: view ? undefined : "table" }), replace: true })}>{view ? "Show graph" : "Show table"}</Button>
        </>
      }
    >
      {agents.isPending || graph.isPending ? (
        <div className="p-5"><Skeletons rows={4} className="h-14 w-full" /></div>
      ) : error ? (
        <div className="p-5"><Problem error={error} retry={() => void Promise.all([agents.refetch(), graph.refetch()])} /></div>
      ) : all.length === 0 ? (
        <Empty title="No agents yet" command="deckhand agent apply -f personas/">Agents and their triggers appear here.</Empty>
      ) : view === "table" ? (
        <div className="h-full overflow-y-auto p-5"><EdgeTable edges={edges} /></div>
      ) : (
        <div role="group" aria-label="Graph of agents and triggers" className="h-full border-t">
          <Suspense fallback={<Skeletons rows={4} />}>
            <Canvas nodes={nodes} edges={edges} onOpen={open} onEdge={tasksOf} />
          </Suspense>
        </div>
      )}
    </Page>
  );
}

const nameOf = (id: string) => id.slice(id.indexOf(" ") + 1);

// useWake asks again when an event may have changed an edge: at once, and then not more
// often than that. An edge is alive within a second of what flows along it.
function useWake(refetch: () => unknown) {
  const { store } = useLive();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const last = useRef(-Infinity);
  useEffect(() => {
    const stop = store.onBatch((events) => {
      if (!events.some((e) => wakes.has(e.type))) return;
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        last.current = performance.now();
        void refetch();
      }, Math.max(0, last.current + often - performance.now()));
    });
    return () => {
      stop();
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [store, refetch]);
}

// EdgeTable is the same in words.
export function EdgeTable({ edges }: { edges: GraphEdge[] }) {
  if (edges.length === 0) return <Empty title="No edges">No agent may give work to another, and no trigger starts one.</Empty>;
  return (
    <Table label="Edges" head={["From", "To", "Kind", "Tasks", "Live", "Waits", "Tokens", "Last 5 min", "Cost"]}>
      {edges.map((e) => (
        <Row key={e.id}>
          <Cell>{nameOf(e.from)}</Cell>
          <Cell>
            <Link to="/tasks" search={{ agent: nameOf(e.to) }} className="inline-flex min-h-6 items-center text-accent hover:underline">{nameOf(e.to)}</Link>
          </Cell>
          <Cell className="whitespace-nowrap">
            {e.kind} {!e.permitted && <Badge tone="warn">{e.kind === "trigger" ? "off" : "not permitted"}</Badge>}
          </Cell>
          <Cell>{count(e.tasks)}</Cell>
          <Cell>{count(e.live)}</Cell>
          <Cell className="whitespace-nowrap">{e.waiting > 0 ? `${nameOf(e.from)} waits for ${nameOf(e.to)}` : "–"}</Cell>
          <Cell>{count(e.tokens)}</Cell>
          <Cell>{count(e.recentTokens)}</Cell>
          <Cell>{dollars(e.costMicros)}</Cell>
        </Row>
      ))}
    </Table>
  );
}
