import type { Agent } from "@/gen/deckhand/v1/agent_pb";

// shown is how many nodes a card names.
const shown = 3;

// AgentNodes says on how many nodes an agent may run, and names them: the one with its
// workspace first. A node that is not connected is struck through.
export function AgentNodes({ agent }: { agent: Pick<Agent, "nodes"> }) {
  if (agent.nodes.length === 0) return <span className="text-warn">no node fits</span>;
  const nodes = [...agent.nodes].sort((a, b) => Number(b.home) - Number(a.home));
  const all = nodes.map((n) => n.name + (n.home ? " (workspace)" : "") + (n.connected ? "" : " (not connected)")).join(", ");
  return (
    <span title={all}>
      {nodes.length === 1 ? "1 node" : `${nodes.length} nodes`}:{" "}
      {nodes.slice(0, shown).map((n, i) => (
        <span key={n.id}>
          {i > 0 && ", "}
          <span className={n.connected ? "" : "line-through"}>{n.name}</span>
        </span>
      ))}
      {nodes.length > shown && <span className="sr-only">, {nodes.slice(shown).map((n) => n.name).join(", ")}</span>}
      {nodes.length > shown && <span aria-hidden> +{nodes.length - shown}</span>}
    </span>
  );
}
