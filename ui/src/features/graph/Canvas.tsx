import { Background, BaseEdge, Controls, EdgeLabelRenderer, getBezierPath, Handle, Position, ReactFlow, type Edge, type EdgeProps, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { Bot, Zap } from "lucide-react";
import { useMemo } from "react";
import { useDark } from "@/app/theme";
import { cx } from "@/components/cx";
import { count } from "@/components/money";
import { agentWord } from "@/components/state";
import { AgentStatus } from "@/gen/deckhand/v1/agent_pb";
import { nodeHeight, nodeWidth, said, widthOf, type GraphEdge, type GraphNode } from "./graph";
import "./graph.css";

type Place = Node<GraphNode & Record<string, unknown>, "place">;
type Flow = Edge<GraphEdge & Record<string, unknown>, "flow">;

// Canvas draws the graph. Dragging and zooming are the pointer's; the keyboard goes from
// node to node with Tab and opens one with Enter.
export function Canvas(props: { nodes: GraphNode[]; edges: GraphEdge[]; onOpen: (node: GraphNode) => void; onEdge: (edge: GraphEdge) => void }) {
  const dark = useDark();
  const nodes = useMemo<Place[]>(
    () => props.nodes.map((n) => ({ id: n.id, type: "place", position: { x: n.x, y: n.y }, data: n, width: nodeWidth, height: nodeHeight, ariaLabel: `${n.kind} ${n.name}` })),
    [props.nodes],
  );
  const edges = useMemo<Flow[]>(
    () =>
      props.edges.map((e) => ({
        id: e.id, type: "flow", source: e.from, target: e.to, data: e,
        ariaLabel: said(e),
      })),
    [props.edges],
  );
  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      nodeTypes={nodeTypes}
      edgeTypes={edgeTypes}
      colorMode={dark ? "dark" : "light"}
      fitView
      fitViewOptions={{ maxZoom: 1 }}
      minZoom={0.1}
      nodesDraggable={false}
      nodesConnectable={false}
      deleteKeyCode={null}
      onlyRenderVisibleElements
      onNodeClick={(_, n) => props.onOpen(n.data)}
      onEdgeClick={(_, e) => e.data && props.onEdge(e.data)}
      proOptions={{ hideAttribution: true }}
    >
      <Background />
      <Controls showInteractive={false} />
    </ReactFlow>
  );
}

const tones: Partial<Record<AgentStatus, string>> = {
  [AgentStatus.ACTIVE]: "border-accent",
  [AgentStatus.PAUSED]: "border-warn",
  [AgentStatus.ERROR_SUSPENDED]: "border-bad",
};

function PlaceNode({ data: n }: NodeProps<Place>) {
  const Icon = n.kind === "agent" ? Bot : Zap;
  return (
    <div className={cx("flex h-full items-center gap-2 rounded-md border bg-panel px-2", n.kind === "agent" ? (tones[n.status as AgentStatus] ?? "") : "border-dashed")}>
      <Handle type="target" position={Position.Left} className="invisible" />
      <Icon aria-hidden className="size-4 shrink-0 text-dim" />
      <div className="min-w-0">
        <p className="truncate text-sm font-medium">{n.name}</p>
        <p className="truncate text-xs text-dim">{n.kind === "agent" ? `${agentWord(n.status as AgentStatus)} · ${n.detail}` : n.detail}</p>
      </div>
      <Handle type="source" position={Position.Right} className="invisible" />
    </div>
  );
}

function FlowEdge(p: EdgeProps<Flow>) {
  const e = p.data!;
  const self = p.source === p.target;
  const [curve, x, y] = getBezierPath(p);
  // An agent's own subtasks are a loop above it.
  const path = self ? `M ${p.sourceX} ${p.sourceY} C ${p.sourceX + 60} ${p.sourceY - 80}, ${p.targetX - 60} ${p.targetY - 80}, ${p.targetX} ${p.targetY}` : curve;
  const colour = e.live > 0 ? "var(--accent)" : e.tasks > 0 ? "var(--dim)" : "var(--line)";
  return (
    <>
      <BaseEdge
        id={p.id}
        path={path}
        interactionWidth={16}
        className={cx(e.live > 0 && e.waiting === 0 && "edge-live")}
        style={{ stroke: colour, strokeWidth: widthOf(e.recentTokens), strokeDasharray: e.waiting > 0 ? "6 5" : e.live > 0 ? "8 4" : undefined }}
      />
      {(e.live > 0 || e.recentTokens > 0) && (
        <EdgeLabelRenderer>
          <span
            className="absolute rounded border bg-panel px-1 text-[11px] text-dim"
            style={{ transform: `translate(-50%, -50%) translate(${x}px, ${self ? p.sourceY - 60 : y}px)` }}
          >
            {e.waiting > 0 ? `waits for ${p.target.slice(p.target.indexOf(" ") + 1)}` : `${e.live} live`}
            {e.recentTokens > 0 && ` · ${count(e.recentTokens)} tok`}
          </span>
        </EdgeLabelRenderer>
      )}
    </>
  );
}

const nodeTypes = { place: PlaceNode };
const edgeTypes = { flow: FlowEdge };
