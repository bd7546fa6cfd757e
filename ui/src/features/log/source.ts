import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { transport } from "@/api/transport";
import { NodeExecService, type IndexNodeLogResponse, type SearchNodeLogResponse } from "@/gen/deckhand/v1/node_exec_pb";

const execs = createClient(NodeExecService, transport);

// Piece is a run of output: its first byte's offset, and when it was written, in
// milliseconds.
export type Piece = { offset: number; data: Uint8Array; time?: number };

export type Query = { pattern: string; regexp: boolean; ignoreCase: boolean };

// Source is the output of a command, on the node that ran it.
export type Source = {
  index(at: { offset: number; seen: number; wait: number }, signal: AbortSignal): Promise<IndexNodeLogResponse>;
  // Without a limit, to the end.
  read(offset: number, limit: number, signal: AbortSignal): AsyncIterable<Piece>;
  search(q: Query, at: { offset?: number; end?: number; backwards?: boolean; most: number }, signal: AbortSignal): Promise<SearchNodeLogResponse>;
};

// logOf returns the output of a step, or of a person's command.
export function logOf(execId: string): Source {
  return {
    index: ({ offset, seen, wait }, signal) =>
      execs.indexNodeLog({ execId, offset: BigInt(offset), rowBytes, seen: BigInt(seen), wait: { seconds: BigInt(wait) } }, { signal }),
    async *read(offset, limit, signal) {
      for await (const p of execs.readNodeLog({ execId, offset: BigInt(offset), limit: BigInt(limit) }, { signal })) {
        if (p.data.length > 0) yield { offset: Number(p.offset), data: p.data, time: p.time && timestampMs(p.time) };
      }
    },
    search: (q, at, signal) =>
      execs.searchNodeLog(
        { execId, ...q, offset: BigInt(at.offset ?? 0), end: BigInt(at.end ?? 0), backwards: at.backwards, maxMatches: at.most, maxTime: { seconds: searchTurn } },
        { signal },
      ),
  };
}

// searchTurn is how long the node searches before it returns what it found, in seconds: a
// person sees how far it is.
const searchTurn = 1n;

// rowBytes is how long a row is at most, in bytes: a line of a megabyte in one
// would stop the page.
export const rowBytes = 2_000;
