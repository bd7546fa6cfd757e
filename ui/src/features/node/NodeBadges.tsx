import { Badge, type Tone } from "@/components/Badge";
import type { Node, NodeLock } from "@/gen/deckhand/v1/node_pb";
import { wordsOf, type NodeWord } from "./search";

const tones: Record<NodeWord, Tone> = {
  connected: "good",
  lost: "bad",
  revoked: "neutral",
  drained: "warn",
  locked: "warn",
  pressure: "warn",
};

// untilOf says when a lock ends at the latest; a person's has no end.
const untilOf = (lock: NodeLock) => (lock.expiresAt ? ` until ${new Date(Number(lock.expiresAt.seconds) * 1000).toLocaleTimeString()}` : "");

// NodeBadges show the states of a node, with their reasons as titles.
export function NodeBadges({ node }: { node: Node }) {
  const titles: Partial<Record<NodeWord, string>> = {
    lost: "Not connected to the hub. Running commands continue for the offline grace period.",
    drained: node.drain && `By ${node.drain.by}: ${node.drain.reason || "no reason given"}`,
    locked: node.lock && `By ${node.lock.by}${untilOf(node.lock)}: ${node.lock.reason}`,
    pressure: node.pressure,
  };
  return (
    <span className="inline-flex flex-wrap gap-1">
      {wordsOf(node).map((word) => (
        <Badge key={word} tone={tones[word]} dot={word === "connected" || word === "lost"} title={titles[word]}>
          {word}
        </Badge>
      ))}
    </span>
  );
}

// Labels are a node's labels as people write them.
export function Labels({ of }: { of: Record<string, string> }) {
  const all = Object.entries(of).sort(([a], [b]) => a.localeCompare(b));
  if (all.length === 0) return <span className="text-dim">none</span>;
  return (
    <span className="inline-flex flex-wrap gap-1">
      {all.map(([k, v]) => (
        <code key={k} className="rounded bg-raised px-1.5 text-xs break-all">
          {k}={v}
        </code>
      ))}
    </span>
  );
}
