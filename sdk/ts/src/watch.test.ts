import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "./gen/deckhand/error/v1/error_pb.js";
import { WatchResponseSchema, type WatchResponse } from "./gen/deckhand/v1/event_pb.js";
import { watch, type WatchOptions, type WatchRequest, type WatchStatus } from "./watch.js";

const event = (seq: number) => create(WatchResponseSchema, { cursor: String(seq), item: { case: "event", value: { seq: BigInt(seq) } } });
const heartbeat = (cursor: string) => create(WatchResponseSchema, { cursor, item: { case: "heartbeat", value: {} } });

type Script = (request: WatchRequest, signal: AbortSignal) => AsyncIterable<WatchResponse>;

// scripted plays one script for each time that the stream is opened, and the last one again
// after that.
function scripted(...scripts: Script[]) {
  const requests: WatchRequest[] = [];
  const statuses: WatchStatus[] = [];
  const begin = (request: WatchRequest, options: WatchOptions = {}) =>
    watch(
      (r, { signal }) => {
        requests.push(r);
        return (scripts[requests.length - 1] ?? scripts.at(-1)!)(r, signal);
      },
      request,
      { backoff: { base: 1, max: 5 }, onStatus: (s) => statuses.push(s), ...options },
    );
  return { begin, requests, statuses };
}

async function* hang(_: WatchRequest, signal: AbortSignal): AsyncIterable<WatchResponse> {
  yield heartbeat("9");
  await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
}

const error = (code: Code, info?: Record<string, unknown>) => {
  const e = new ConnectError("failed", code);
  if (info) e.details = [{ desc: ErrorInfoSchema, value: info as never }];
  return e;
};

describe("watch", () => {
  it("goes on after the last cursor when the connection breaks, without a gap or repetition", async () => {
    const { begin, requests, statuses } = scripted(async function* (r) {
      for (let n = Number(r.cursor || 0) + 1; n <= 10; n++) {
        yield heartbeat(String(n - 1));
        yield event(n);
        if (n % 3 === 0 && requests.length < 5) throw requests.length % 2 ? error(Code.Unavailable) : error(Code.Internal);
      }
    });
    const seqs: bigint[] = [];
    for await (const { item } of begin({ fromNow: true, follow: true, taskIds: ["t"] })) if (item.case === "event") seqs.push(item.value.seq);
    expect(seqs).toEqual([1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n, 10n]);
    expect(requests.map((r) => [r.cursor, r.fromNow, r.taskIds])).toEqual([
      ["", true, ["t"]],
      ["3", false, ["t"]],
      ["6", false, ["t"]],
      ["9", false, ["t"]],
    ]);
    expect(statuses).toEqual(["connecting", "live", "lost", "live", "lost", "live", "lost", "live"]);
  });

  it("leaves a connection on which not even heartbeats come", async () => {
    const { begin, requests } = scripted(hang, async function* () {
      yield event(10);
    });
    const cursors: string[] = [];
    for await (const r of begin({}, { silence: 20 })) cursors.push(r.cursor);
    expect(cursors).toEqual(["9", "10"]);
    expect(requests[1]?.cursor).toBe("9");
  });

  it("does not take its reader's time for silence", async () => {
    const { begin, requests } = scripted(async function* () {
      yield event(1);
      yield event(2);
    });
    for await (const _ of begin({}, { silence: 10 })) await new Promise((resolve) => setTimeout(resolve, 40));
    expect(requests.length).toBe(1);
  });

  it("ends with what another try would not mend", async () => {
    for (const refused of [error(Code.Unauthenticated), error(Code.InvalidArgument), error(Code.Internal, { message: "failed inside" }), error(Code.FailedPrecondition, { code: "CURSOR_EXPIRED" })]) {
      const { begin, requests } = scripted(async function* () {
        throw refused;
      });
      await expect(begin({}).next()).rejects.toMatchObject({ name: "DeckhandError", cause: refused });
      expect(requests.length).toBe(1);
    }
  });

  it("ends with its signal, and lets go of the connection when its reader leaves", async () => {
    let open = 0;
    const { begin } = scripted(async function* (r, signal) {
      open++;
      signal.addEventListener("abort", () => open--);
      yield* hang(r, signal);
    });
    for await (const _ of begin({})) break;
    expect(open).toBe(0);
    const abort = new AbortController();
    const reason = new Error("enough");
    const read = (async () => {
      for await (const _ of begin({}, { signal: abort.signal })) abort.abort(reason);
    })();
    await expect(read).rejects.toBe(reason);
    expect(open).toBe(0);
    await expect(begin({}, { signal: AbortSignal.abort(reason) }).next()).rejects.toBe(reason);
  });
});
