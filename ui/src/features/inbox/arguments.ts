import { createClient } from "@connectrpc/connect";
import { useEffect, useMemo, useState } from "react";
import { transport } from "@/api/transport";
import { argumentsOf, type ActObject } from "@/components/marks";
import { InboxService, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";

const inbox = createClient(InboxService, transport);

// WholeArguments are an item's arguments with nothing left out, or how much of
// them is there yet.
export type WholeArguments = {
  args: ActObject | undefined;
  readBytes: bigint;
  sizeBytes: bigint;
  error: unknown;
  retry: () => void;
};

// useWholeArguments reads the rest of those texts of which an item has only the
// beginning, piece by piece, until they are whole.
export function useWholeArguments(item: InboxItem): WholeArguments {
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>();
  const [readBytes, setRead] = useState(0n);
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);
  const sizeBytes = item.longArguments.reduce((sum, l) => sum + l.sizeBytes, 0n);
  useEffect(() => {
    setTexts(undefined);
    setRead(0n);
    setError(undefined);
    if (item.longArguments.length === 0) return undefined;
    const abort = new AbortController();
    const read = async () => {
      const found = new Map<string, string>();
      let before = 0n;
      for (const { pointer, sizeBytes } of item.longArguments) {
        const pieces: string[] = [];
        for (let offset = 0n; offset < sizeBytes; ) {
          const piece = await inbox.readInboxArgument({ itemId: item.id, pointer, offset }, { signal: abort.signal });
          if (piece.sizeBytes !== sizeBytes || piece.nextOffset <= offset) throw new Error(`${pointer} has changed while it was read: load it again`);
          pieces.push(piece.text);
          offset = piece.nextOffset;
          setRead(before + offset);
        }
        before += sizeBytes;
        found.set(pointer, pieces.join(""));
      }
      setTexts(found);
    };
    read().catch((e: unknown) => abort.signal.aborted || setError(e));
    return () => abort.abort();
  }, [item, tries]);
  const args = useMemo(() => {
    if (item.longArguments.length === 0) return argumentsOf(item.arguments);
    if (!texts || !item.longArguments.every((l) => texts.has(l.pointer))) return undefined;
    const copy = structuredClone(item.arguments ?? {}) as Record<string, unknown>;
    for (const [pointer, text] of texts) put(copy, pointer, text);
    return argumentsOf(copy);
  }, [item, texts]);
  return { args, readBytes, sizeBytes, error, retry: () => setTries((n) => n + 1) };
}

// put sets the value that a JSON Pointer (RFC 6901) names.
export function put(root: Record<string, unknown>, pointer: string, value: unknown) {
  const names = pointer
    .slice(1)
    .split("/")
    .map((n) => n.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = names.pop()!;
  let at: Record<string, unknown> = root;
  for (const name of names) {
    const next = at[name];
    if (typeof next !== "object" || next === null) throw new Error(`the arguments have nothing at ${pointer}`);
    at = next as Record<string, unknown>;
  }
  at[last] = value;
}
