import type { Node } from "@/gen/deckhand/v1/node_pb";

// nodeWords are what a node may be, as the list's address and badges say it.
export const nodeWords = ["connected", "lost", "revoked", "drained", "locked", "pressure"] as const;
export type NodeWord = (typeof nodeWords)[number];

export type NodeSearch = {
  // Part of a name or a label.
  q?: string;
  is?: NodeWord;
};

// parseNodeSearch reads an address; what it does not know is left out.
export function parseNodeSearch(search: Record<string, unknown>): NodeSearch {
  return {
    q: typeof search.q === "string" && search.q !== "" ? search.q.slice(0, 200) : undefined,
    is: nodeWords.find((word) => word === search.is),
  };
}

// wordsOf says all that a node is.
export function wordsOf(node: Node): NodeWord[] {
  return [
    node.status === "connected" ? "connected" : node.status === "revoked" ? "revoked" : "lost",
    ...(node.drain ? (["drained"] as const) : []),
    ...(node.lock ? (["locked"] as const) : []),
    ...(node.pressure ? (["pressure"] as const) : []),
  ];
}

// matches reports whether a node passes the filter.
export function matches(node: Node, search: NodeSearch): boolean {
  if (search.is && !wordsOf(node).includes(search.is)) return false;
  const q = search.q?.toLowerCase();
  if (!q) return true;
  const labels = Object.entries(node.labels).map(([k, v]) => `${k}=${v}`);
  return [node.name, node.id, ...labels].some((text) => text.toLowerCase().includes(q));
}

// parseLabels reads "site=berlin, rack=4"; a string is what is wrong with it.
export function parseLabels(text: string): Record<string, string> | string {
  const labels: Record<string, string> = {};
  for (const part of text.split(/[,\n]/).map((p) => p.trim())) {
    if (!part) continue;
    const at = part.indexOf("=");
    if (at < 1) return `"${part}" is not a label. Use name=value.`;
    labels[part.slice(0, at).trim()] = part.slice(at + 1).trim();
  }
  return labels;
}

// joinCommand is the one line that makes a machine a node of the hub at url: it installs
// deckhand-node and starts it. It has the token in it, which is good for one machine:
// in the environment, since every user of the machine can read the arguments of sudo.
export const joinCommand = (token: string, url: string) => {
  const hub = url.replace(/\/$/, "");
  return `curl -fsSL ${hub}/install/node | DECKHAND_HUB_URL=${hub} DECKHAND_JOIN_TOKEN=${token} sudo --preserve-env=DECKHAND_HUB_URL,DECKHAND_JOIN_TOKEN sh`;
};

// localOnly reports whether other machines cannot reach an address.
export const localOnly = (url: string) => /^(localhost|127\..*|\[::1\])$/.test(new URL(url).hostname);
