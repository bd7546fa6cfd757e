import dagre from "@dagrejs/dagre";
import { count } from "@/components/money";
import type { Agent, AgentEdge, TriggerEdge } from "@/gen/deckhand/v1/agent_pb";

// GraphNode is an agent or a trigger, and where it stands.
export type GraphNode = { id: string; kind: "agent" | "trigger"; name: string; detail: string; status: number; x: number; y: number };

// GraphEdge is what one end gave the other: figures are those of the RPC.
export type GraphEdge = {
  id: string;
  from: string;
  to: string;
  kind: string;
  permitted: boolean;
  tasks: number;
  live: number;
  waiting: number;
  tokens: number;
  recentTokens: number;
  costMicros: number;
};

export const nodeWidth = 180;
export const nodeHeight = 56;

// edgesOf returns the edges of both kinds. used leaves out those along which no task was
// given.
export function edgesOf(edges: readonly AgentEdge[], triggers: readonly TriggerEdge[], used: boolean): GraphEdge[] {
  const out = edges.map((e) => ({
    id: `${e.from} ${e.kind} ${e.to}`, from: `agent ${e.from}`, to: `agent ${e.to}`, kind: e.kind, permitted: e.permitted,
    tasks: Number(e.tasks), live: Number(e.live), waiting: Number(e.waiting), tokens: Number(e.tokens),
    recentTokens: Number(e.recentTokens), costMicros: Number(e.costMicros),
  }));
  for (const t of triggers) {
    out.push({
      id: `trigger ${t.triggerId}`, from: `trigger ${t.triggerName}`, to: `agent ${t.agent}`, kind: "trigger", permitted: t.state === "enabled",
      tasks: Number(t.tasks), live: Number(t.live), waiting: 0, tokens: Number(t.tokens),
      recentTokens: Number(t.recentTokens), costMicros: Number(t.costMicros),
    });
  }
  return used ? out.filter((e) => e.tasks > 0) : out;
}

// layout places agents and triggers in layers, from those that give work to those that
// take it. Agents that nothing leads to or from are in a grid below.
export function layout(agents: readonly Pick<Agent, "name" | "model" | "status">[], triggers: readonly TriggerEdge[], edges: readonly GraphEdge[]): GraphNode[] {
  const tied = new Set(edges.flatMap((e) => [e.from, e.to]));
  const all: GraphNode[] = agents.map((a) => ({ id: `agent ${a.name}`, kind: "agent", name: a.name, detail: a.model, status: a.status, x: 0, y: 0 }));
  for (const t of triggers) {
    if (tied.has(`trigger ${t.triggerName}`)) all.push({ id: `trigger ${t.triggerName}`, kind: "trigger", name: t.triggerName, detail: t.kind, status: 0, x: 0, y: 0 });
  }
  const g = new dagre.graphlib.Graph({ multigraph: true });
  g.setGraph({ rankdir: "LR", nodesep: 16, ranksep: 110 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const n of all) if (tied.has(n.id)) g.setNode(n.id, { width: nodeWidth, height: nodeHeight });
  for (const e of edges) if (e.from !== e.to && g.hasNode(e.from) && g.hasNode(e.to)) g.setEdge(e.from, e.to, {}, e.id);
  dagre.layout(g);
  let bottom = 0;
  for (const n of all) {
    if (!tied.has(n.id)) continue;
    const at = g.node(n.id);
    n.x = at.x - nodeWidth / 2;
    n.y = at.y - nodeHeight / 2;
    bottom = Math.max(bottom, n.y + nodeHeight + 48);
  }
  const alone = all.filter((n) => !tied.has(n.id));
  const columns = Math.max(4, Math.ceil(Math.sqrt(alone.length * 2)));
  alone.forEach((n, i) => {
    n.x = (i % columns) * (nodeWidth + 16);
    n.y = bottom + Math.floor(i / columns) * (nodeHeight + 16);
  });
  return all;
}

// widthOf is how wide an edge is drawn, in pixels, by the tokens of the last five minutes.
export const widthOf = (recentTokens: number) => (recentTokens > 0 ? Math.min(10, 1.5 + Math.log10(recentTokens)) : 1.5);

// said is an edge in words.
export function said(e: GraphEdge): string {
  const [from, to] = [e.from, e.to].map((id) => id.slice(id.indexOf(" ") + 1));
  const parts = [`${e.kind} from ${from} to ${to}: ${e.tasks} ${e.tasks === 1 ? "task" : "tasks"}`];
  if (e.live > 0) parts.push(`${e.live} live`);
  if (e.waiting > 0) parts.push(`${from} waits for ${to}`);
  if (e.recentTokens > 0) parts.push(`${count(e.recentTokens)} tokens in the last 5 minutes`);
  return parts.join(", ");
}
