import { Badge } from "@/components/Badge";
import { bytes } from "@/components/money";
import { Sparkline } from "@/components/Sparkline";
import { Time } from "@/components/Time";
import type { Node } from "@/gen/deckhand/v1/node_pb";
import { useFigures, type Samples } from "./figures";

// NodeStrip is every machine at a glance: those that are lost, and those that
// have no room, say so.
export function NodeStrip(props: { nodes: Node[]; samples: Samples }) {
  if (props.nodes.length === 0) return null;
  return (
    <ul aria-label="Nodes" className="flex gap-2 overflow-x-auto pb-1" tabIndex={0}>
      {props.nodes.map((n) => (
        <NodeMark key={n.id} node={n} samples={props.samples} />
      ))}
    </ul>
  );
}

function NodeMark({ node, samples }: { node: Node; samples: Samples }) {
  const { cpu, memory, memoryLimit } = useFigures(samples, `node ${node.id}`);
  const lost = node.status !== "connected";
  return (
    <li className="min-w-52 shrink-0 rounded-md border bg-panel px-3 py-2 text-xs" title={node.pressure || undefined}>
      <p className="flex items-center gap-2">
        <span className="min-w-0 flex-1 truncate text-sm font-medium">{node.name}</span>
        {lost ? (
          <Badge tone="bad" dot>
            {node.status}
          </Badge>
        ) : node.pressure ? (
          <Badge tone="warn" dot title={node.pressure}>
            pressure
          </Badge>
        ) : node.lock ? (
          <Badge tone="warn" dot title={node.lock.reason}>
            locked
          </Badge>
        ) : node.drain ? (
          <Badge tone="info" dot title={node.drain.reason}>
            draining
          </Badge>
        ) : (
          <Badge tone="good" dot>
            connected
          </Badge>
        )}
      </p>
      {lost ? (
        <p className="text-dim">
          last seen <Time at={node.lastSeenAt} />
        </p>
      ) : (
        <p className="flex items-center gap-2 text-dim">
          <Sparkline values={cpu} label="CPU" />
          <span>
            {((cpu.at(-1) ?? 0) / 1000).toFixed(1)} CPU, {bytes(memory.at(-1) ?? 0)}
            {memoryLimit > 0 && ` of ${bytes(memoryLimit)}`}
          </span>
        </p>
      )}
    </li>
  );
}
