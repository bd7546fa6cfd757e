import { createClient } from "@connectrpc/connect";
import { useEffect, useMemo, useState } from "react";
import { transport } from "@/api/transport";
import { argumentsOf, type ActObject } from "@/components/marks";
import { InboxService, type CallDecision, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";

const inbox = createClient(InboxService, transport);

// WholeArguments are an item's arguments, and the decision about its call, with
// nothing left out, or how much of them is there yet.
export type WholeArguments = {
  args: ActObject | undefined;
  // Undefined also where the item has none.
  decision: CallDecision | undefined;
  readBytes: bigint;
  sizeBytes: bigint;
  error: unknown;
  retry: () => void;
};

// longTexts are the texts of which an item has only the beginning.
function longTexts(item: InboxItem) {
  return [
    ...item.longArguments.map(({ pointer, sizeBytes }) => ({ pointer, sizeBytes, inDecision: false })),
    ...(item.decision?.longTexts ?? []).map(({ pointer, sizeBytes }) => ({ pointer, sizeBytes, inDecision: true })),
  ];
}

type Texts = { args: ReadonlyMap<string, string>; decision: ReadonlyMap<string, string> };

// useWholeArguments reads the rest of those texts of which an item has only the
// beginning, piece by piece, until they are whole.
export function useWholeArguments(item: InboxItem): WholeArguments {
  const [texts, setTexts] = useState<Texts>();
  const [readBytes, setRead] = useState(0n);
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);
  const sizeBytes = longTexts(item).reduce((sum, l) => sum + l.sizeBytes, 0n);
  useEffect(() => {
    setTexts(undefined);
    setRead(0n);
    setError(undefined);
    const long = longTexts(item);
    if (long.length === 0) return undefined;
    const abort = new AbortController();
    const read = async () => {
      const found = { args: new Map<string, string>(), decision: new Map<string, string>() };
      let before = 0n;
      for (const { pointer, sizeBytes, inDecision } of long) {
        const pieces: string[] = [];
        for (let offset = 0n; offset < sizeBytes; ) {
          const piece = await inbox.readInboxArgument({ itemId: item.id, pointer, offset, inDecision }, { signal: abort.signal });
          if (piece.sizeBytes !== sizeBytes || piece.nextOffset <= offset) throw new Error(`${pointer} has changed while it was read: load it again`);
          pieces.push(piece.text);
          offset = piece.nextOffset;
          setRead(before + offset);
        }
        before += sizeBytes;
        (inDecision ? found.decision : found.args).set(pointer, pieces.join(""));
      }
      setTexts(found);
    };
    read().catch((e: unknown) => abort.signal.aborted || setError(e));
    return () => abort.abort();
  }, [item, tries]);
  const args = useMemo(() => {
    if (longTexts(item).length === 0) return argumentsOf(item.arguments);
    // What is approved includes the decision's texts: nothing is whole without them.
    if (!texts || !reads(texts, item)) return undefined;
    const copy = structuredClone(item.arguments ?? {}) as Record<string, unknown>;
    for (const [pointer, text] of texts.args) put(copy, pointer, text);
    return argumentsOf(copy);
  }, [item, texts]);
  const decision = useMemo(() => {
    if (!item.decision || item.decision.longTexts.length === 0) return item.decision;
    if (!texts || !reads(texts, item)) return undefined;
    const { definition, agreedDefinition, program } = item.decision;
    return {
      ...item.decision,
      definition: texts.decision.get("/definition") ?? definition,
      agreedDefinition: texts.decision.get("/agreed_definition") ?? agreedDefinition,
      program: texts.decision.get("/program") ?? program,
    };
  }, [item, texts]);
  return { args, decision, readBytes, sizeBytes, error, retry: () => setTries((n) => n + 1) };
}

// reads reports whether texts are those of an item: after another item was shown
// they are still those of the one before.
const reads = (texts: Texts, item: InboxItem) => longTexts(item).every((l) => (l.inDecision ? texts.decision : texts.args).has(l.pointer));

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
