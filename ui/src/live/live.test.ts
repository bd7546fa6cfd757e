import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { WatchResponseSchema, type WatchResponse } from "@/gen/deckhand/v1/event_pb";
import { Live } from "./live";
import { EventStore } from "./store";

const happened = (seq: number): WatchResponse =>
  create(WatchResponseSchema, { cursor: `${seq}.0`, item: { case: "event", value: { taskId: "task_1", seq: BigInt(seq), type: "progress_update" } } });

// The tab that leads tells the others what came, in order and before it
// leaves, in few messages.
it("tells other tabs all that came, in order, in few messages", async () => {
  const other = new BroadcastChannel("tabs");
  const said: { kind: string; items?: { event: { seq: number } }[]; cursor?: string }[] = [];
  other.onmessage = (e: MessageEvent<(typeof said)[number]>) => said.push(e.data);
  const store = new EventStore({ list: () => Promise.resolve({ events: [], newest: 0 }) });
  const live = new Live({
    store,
    name: "tabs",
    channel: () => new BroadcastChannel("tabs"),
    locks: { request: (_: string, __: unknown, lead: () => Promise<void>) => lead() } as unknown as LockManager,
    onReset: () => {},
    open: async function* (_, signal) {
      for (let seq = 1; seq <= 100; seq++) yield happened(seq);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  });
  const leave = live.start();
  const seqs = () => said.flatMap((m) => (m.items ?? []).map((i) => i.event.seq));
  await expect.poll(() => seqs().length, { timeout: 30_000 }).toBe(100);
  expect(seqs()).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
  expect(said.filter((m) => m.kind === "items").length).toBeLessThan(20);
  expect(said.findLast((m) => m.kind === "items")?.cursor).toBe("100.0");
  leave();
  other.close();
});
