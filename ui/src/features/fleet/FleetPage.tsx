import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useMemo, useRef, useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { agentWord } from "@/components/state";
import { FirstSteps } from "@/features/start/FirstSteps";
import { millis } from "@/components/Time";
import { SpendPanel } from "@/features/spend/SpendPanel";
import { AgentService, AgentStatus, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { InboxService, InboxSnoozed, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { TaskService, TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { TriggerService } from "@/gen/deckhand/v1/trigger_pb";
import { AgentCard } from "./AgentCard";
import { AgentTable } from "./AgentTable";
import { StopEverything } from "@/features/task/StopEverything";
import { Bulk } from "./Bulk";
import { usePace, useSamples } from "./figures";
import { compareBy, needOf } from "./need";
import { NodeStrip } from "./NodeStrip";
import { SavedViews } from "./SavedViews";
import { groupings, sorts, type Grouping } from "./search";

const route = getRouteApi("/shell/fleet");

// The states of tasks that have not ended, those that a person waits for first.
const live = [
  TaskState.AWAITING_APPROVAL,
  TaskState.NEEDS_INPUT,
  TaskState.ESCALATED,
  TaskState.REVIEW_NEEDED,
  TaskState.PAUSED,
  TaskState.RUNNING,
  TaskState.STARTING,
  TaskState.WAITING,
  TaskState.QUEUED,
  TaskState.PENDING,
];
const none: never[] = [];

// FleetPage shows every agent as a card, live, with the nodes above.
export function FleetPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const tasks = useQuery(TaskService.method.listTasks, { states: live, pageSize: 500 });
  // Nodes have no events: they are asked for while somebody looks.
  const nodes = useInfiniteQuery(NodeService.method.listNodes, { pageSize: 500, pageToken: "" }, { ...byToken, refetchInterval: 5_000 });
  useRest(nodes);
  const triggers = useQuery(TriggerService.method.listTriggers, { pageSize: 500 });
  const all = useMemo(() => nodes.data?.pages.flatMap((page) => page.nodes) ?? none, [nodes.data]);
  const samples = useSamples(all.filter((n) => n.status === "connected").map((n) => n.id));
  const pace = usePace();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const find = useRef<HTMLInputElement>(null);
  useShortcut("f", "Filter agents", "Fleet", () => find.current?.focus());

  const nodeNames = useMemo(() => new Map(all.map((n) => [n.id, n.name])), [all]);
  const tasksOf = useMemo(() => {
    const of = new Map<string, Task[]>();
    for (const t of tasks.data?.tasks ?? none) of.set(t.agentId, [...(of.get(t.agentId) ?? []), t]);
    for (const list of of.values()) list.sort((a, b) => live.indexOf(a.state) - live.indexOf(b.state));
    return of;
  }, [tasks.data]);
  const triggersOf = useMemo(() => {
    const of = new Map<string, string[]>();
    for (const t of triggers.data?.triggers ?? none) of.set(t.agentId, [...(of.get(t.agentId) ?? []), t.name]);
    return of;
  }, [triggers.data]);

  const q = useDeferredValue(search.q?.toLowerCase() ?? "");
  const shown = useMemo(
    () =>
      (agents.data?.agents ?? none).filter(
        (a) =>
          (!search.status || agentWord(a.status) === search.status) &&
          (!q || `${a.name} ${a.description} ${nodeNames.get(a.homeNodeId) ?? ""}`.toLowerCase().includes(q)),
      ),
    [agents.data, q, search.status, nodeNames],
  );
  const inbox = useQuery(InboxService.method.listInbox, { pageSize: 500, snoozed: InboxSnoozed.ANY });
  const summaries = useInfiniteQuery(AgentService.method.listAgentSummaries, { pageSize: 500, pageToken: "" }, { ...byToken, refetchInterval: 15_000 });
  useRest(summaries);
  const providers = useQuery(ProviderService.method.listProviders, { pageSize: 500 }, { refetchInterval: 30_000 });
  const summaryOf = useMemo(() => new Map(summaries.data?.pages.flatMap((p) => p.agents).map((s) => [s.agentId, s])), [summaries.data]);
  const needs = useMemo(() => {
    const items = new Map<string, InboxItem[]>();
    for (const i of inbox.data?.items ?? none) items.set(i.agentId, [...(items.get(i.agentId) ?? []), i]);
    for (const list of items.values()) list.sort((a, b) => (millis(a.askedAt) ?? 0) - (millis(b.askedAt) ?? 0));
    const connected = providers.data && new Set(providers.data.providers.map((p) => p.name));
    return new Map((agents.data?.agents ?? none).map((a) => [a.id, needOf(a, tasksOf.get(a.id)?.[0], items.get(a.id) ?? none, connected)]));
  }, [agents.data, inbox.data, providers.data, tasksOf]);
  const sorted = useMemo(() => [...shown].sort(compareBy(search.sort ?? "need", needs, summaryOf)), [shown, search.sort, needs, summaryOf]);
  const waiting = sorted.filter((a) => (needs.get(a.id)?.rank ?? 9) < 4).length;
  const groups = useMemo(() => grouped(sorted, search.group, nodeNames), [sorted, search.group, nodeNames]);
  const chosen = useMemo(() => shown.filter((a) => selected.has(a.id)), [shown, selected]);
  const select = useCallback((id: string, on: boolean) => {
    setSelected((before) => {
      const next = new Set(before);
      if (on) next.add(id);
      else next.delete(id);
      return next;
    });
  }, []);
  const set = (part: Partial<typeof search>) => void navigate({ search: (s) => ({ ...s, ...part }), replace: true });

  return (
    <Page title="Fleet" actions={agents.data && agents.data.agents.length > 0 && <StopEverything />}>
      <div className="space-y-4">
        <FirstSteps />
        <NodeStrip nodes={all} samples={samples} />
        <SpendPanel />
        <div role="search" aria-label="Filter agents" className="flex flex-wrap items-center gap-2">
          <Input
            ref={find}
            aria-label="Filter by name, description or node"
            placeholder="Filter by name, description or node"
            className="max-w-72"
            value={search.q ?? ""}
            onChange={(e) => set({ q: e.target.value || undefined })}
          />
          <Select aria-label="Status" value={search.status ?? ""} onChange={(e) => set({ status: e.target.value || undefined })}>
            <option value="">Any status</option>
            {[AgentStatus.ACTIVE, AgentStatus.LISTENING, AgentStatus.IDLE, AgentStatus.PAUSED, AgentStatus.ERROR_SUSPENDED, AgentStatus.DISABLED].map(
              (s) => (
                <option key={s}>{agentWord(s)}</option>
              ),
            )}
          </Select>
          <Select
            aria-label="Group by"
            value={search.group ?? ""}
            onChange={(e) => set({ group: groupings.find((g) => g === e.target.value) })}
          >
            <option value="">Not grouped</option>
            {groupings.map((g) => (
              <option key={g} value={g}>
                By {g}
              </option>
            ))}
          </Select>
          <Select aria-label="Sort by" value={search.sort ?? "need"} onChange={(e) => set({ sort: e.target.value === "need" ? undefined : sorts.find((s) => s === e.target.value) })}>
            <option value="need">Needs a person first</option>
            <option value="name">By name</option>
            <option value="cost">By today's spend</option>
            <option value="last">By last run</option>
          </Select>
          <Button aria-pressed={search.view === "table"} onClick={() => set({ view: search.view ? undefined : "table" })}>{search.view ? "Show cards" : "Show table"}</Button>
          <SavedViews search={search} />
          {shown.length > 0 && (
            <label className="flex items-center gap-2">
              <input
                type="checkbox"
                className="size-4 accent-accent"
                checked={chosen.length === shown.length}
                onChange={(e) => setSelected(new Set(e.target.checked ? shown.map((a) => a.id) : []))}
              />
              Select all {shown.length}
            </label>
          )}
        </div>
        {waiting > 0 && <p role="status" className="text-sm text-warn">{waiting} {waiting === 1 ? "agent needs" : "agents need"} a person.</p>}
        <Bulk agents={chosen} tasks={chosen.flatMap((a) => tasksOf.get(a.id) ?? none)} onClear={() => setSelected(new Set())} />
        {agents.isPending ? (
          <Skeletons rows={4} className="h-40 w-full" />
        ) : agents.error ? (
          <Problem error={agents.error} retry={() => void agents.refetch()} />
        ) : agents.data.agents.length === 0 ? (
          <Empty title="No agents yet" command="deckhand agent apply -f personas/">
            Agents are Markdown files.{" "}
            <Link to="/agents/new" className="underline">
              Create one here
            </Link>
            , or apply a folder of them.
          </Empty>
        ) : shown.length === 0 ? (
          <Empty title="No agents match">
            <Button onClick={() => void navigate({ search: (s) => ({ ...s, q: undefined, status: undefined }) })}>Clear filter</Button>
          </Empty>
        ) : (
          groups.map(([name, members]) => (
            <section key={name} aria-label={name || "Agents"}>
              <h2 className={name ? "pb-2 text-sm font-semibold text-dim" : "sr-only"}>{name || "Agents"}</h2>
              {search.view === "table" ? (
                <AgentTable agents={members} tasksOf={tasksOf} needs={needs} summaries={summaryOf} selected={selected} onSelect={select} />
              ) : (
              <ul className="grid grid-cols-[repeat(auto-fill,minmax(min(22rem,100%),1fr))] gap-3">
                {members.map((a) => {
                  const own = tasksOf.get(a.id);
                  return (
                    // Cards out of sight are not laid out.
                    <li key={a.id} style={{ contentVisibility: "auto", containIntrinsicSize: "auto 190px" }}>
                      <AgentCard
                        agent={a}
                        task={own?.[0]}
                        live={own?.length ?? 0}
                        need={needs.get(a.id)}
                        summary={summaryOf.get(a.id)}
                        triggers={triggersOf.get(a.id) ?? none}
                        samples={samples}
                        pace={pace}
                        selected={selected.has(a.id)}
                        onSelect={select}
                      />
                    </li>
                  );
                })}
              </ul>
              )}
            </section>
          ))
        )}
      </div>
    </Page>
  );
}

function grouped(agents: Agent[], by: Grouping | undefined, nodes: Map<string, string>): [string, Agent[]][] {
  if (!by) return [["", agents]];
  const name = (a: Agent) =>
    by === "node" ? (nodes.get(a.homeNodeId) ?? "no node yet") : by === "status" ? agentWord(a.status) : `${a.provider} ${a.model}`;
  const of = new Map<string, Agent[]>();
  for (const a of agents) of.set(name(a), [...(of.get(name(a)) ?? []), a]);
  return [...of].sort(([a], [b]) => a.localeCompare(b));
}
