import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { WatchResponseSchema, type WatchResponse } from "@/gen/deckhand/v1/event_pb";
import type { Item } from "./event";
import { Stream, type Request, type Status } from "./stream";

const heartbeat = (cursor: string) =>
  create(WatchResponseSchema, { cursor, item: { case: "heartbeat", value: {} } });
const happened = (seq: number) =>
  create(WatchResponseSchema, {
    cursor: `${seq}.0`,
    item: { case: "event", value: { taskId: "task_1", seq: BigInt(seq), type: "progress_update" } },
  });

type Script = (request: Request, signal: AbortSignal) => AsyncIterable<WatchResponse>;

// run plays one script for each time that the stream is opened.
function run(scripts: Script[], silence = 5_000) {
  const requests: Request[] = [];
  const items: Item[] = [];
  const statuses: Status[] = [];
  let resets = 0;
  const stream = new Stream(
    {
      open: (request, signal) => {
        requests.push(request);
        const script = scripts[requests.length - 1];
        if (!script) return hang(request, signal);
        return script(request, signal);
      },
      onItems: (more) => items.push(...more),
      onOpen: () => {},
      onReset: () => resets++,
      onStatus: (s) => statuses.push(s),
      silence,
      backoff: 1,
    },
    "",
  );
  return { stream, requests, items, statuses, resets: () => resets, ended: stream.run() };
}

async function* hang(_: Request, signal: AbortSignal): AsyncIterable<WatchResponse> {
  yield heartbeat("9.9");
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
}

const seqs = (items: Item[]) => items.map((i) => ("event" in i ? i.event.seq : 0));

describe("Stream", () => {
  it("goes on after the last cursor when it broke", async () => {
    const r = run([
      async function* () {
        yield heartbeat("0.1");
        yield happened(1);
        yield happened(2);
        throw new ConnectError("gone", Code.Unavailable);
      },
      async function* () {
        yield heartbeat("2.0");
        yield happened(3);
      },
    ]);
    await expect.poll(() => r.requests.length).toBe(3);
    r.stream.stop();
    await r.ended;
    expect(r.requests.map((q) => [q.cursor, q.fromNow])).toEqual([
      ["", true],
      ["2.0", false],
      ["3.0", false],
    ]);
    expect(seqs(r.items)).toEqual([1, 2, 3]);
    expect(r.statuses).toContain("lost");
    expect(r.statuses.at(-1)).toBe("off");
  });

  it("notices that not even heartbeats come", async () => {
    const r = run([hang, hang], 20);
    await expect.poll(() => r.requests.length).toBeGreaterThan(1);
    expect(r.requests[1]?.cursor).toBe("9.9");
    r.stream.stop();
    await r.ended;
  });

  it("opens anew where it stands for other tasks, without a pause", async () => {
    const r = run([hang]);
    await expect.poll(() => r.statuses.at(-1)).toBe("live");
    r.stream.watch(["task_2", "task_1", "task_2"]);
    await expect.poll(() => r.requests.length).toBe(2);
    expect(r.requests[1]).toMatchObject({ cursor: "9.9", detailedTaskIds: ["task_1", "task_2"] });
    r.stream.watch(["task_1", "task_2"]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(r.requests.length).toBe(2);
    expect(r.statuses).not.toContain("lost");
    r.stream.stop();
    await r.ended;
  });

  it("stops when nobody is logged in any more", async () => {
    const r = run([
      async function* () {
        yield heartbeat("1.0");
        throw new ConnectError("who are you", Code.Unauthenticated);
      },
    ]);
    await r.ended;
    expect(r.requests.length).toBe(1);
    expect(r.statuses.at(-1)).toBe("off");
  });
});
