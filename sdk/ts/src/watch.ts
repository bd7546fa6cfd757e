import type { MessageInitShape } from "@bufbuild/protobuf";
import { Backoff, sleep } from "./backoff.js";
import { DeckhandError } from "./error.js";
import type { WatchRequestSchema, WatchResponse } from "./gen/deckhand/v1/event_pb.js";

/** WatchRequest is what to watch; see the comments of its fields. */
export type WatchRequest = MessageInitShape<typeof WatchRequestSchema>;

/** WatchItem is a response with an event, live thinking or a command's progress. */
export type WatchItem = WatchResponse & { item: Exclude<WatchResponse["item"], { case: "heartbeat" } | { case: undefined }> };

/**
 * WatchStatus is how a watch is: "live" means that the hub was heard lately, and "lost" that
 * the connection broke and is opened again.
 */
export type WatchStatus = "connecting" | "live" | "lost";

export type WatchOptions = {
  /** Ends the watch, which then throws the signal's reason. */
  signal?: AbortSignal;
  onStatus?: (status: WatchStatus) => void;
  /**
   * Reports whether to connect again after an error; by default after those that another try
   * may mend.
   */
  reconnect?: (error: DeckhandError) => boolean;
  /**
   * How long nothing may come before the connection counts as dead, in milliseconds; 45 000
   * by default. The hub sends a heartbeat every 15 s if nothing else is sent.
   */
  silence?: number;
  /** The bounds of the first wait before another try, and of all, in milliseconds. */
  backoff?: { base?: number; max?: number };
};

type Open = (request: WatchRequest, options: { signal: AbortSignal }) => AsyncIterable<WatchResponse>;

/**
 * watch returns what EventService.Watch streams, heartbeats included: their cursors are after
 * events that were left out. open makes the call. When the connection breaks, it connects
 * again, with random waits, and goes on after the last cursor: no stored event is missed or
 * repeated. Live thinking and progress are not stored: a piece may be missed.
 *
 * It ends when the hub ends the stream, or throws the signal's reason or an error that
 * another try would not mend.
 */
export async function* watch(open: Open, request: WatchRequest, options: WatchOptions = {}): AsyncGenerator<WatchResponse, void, void> {
  const { signal, onStatus, reconnect = mayMend, silence = 45_000 } = options;
  const backoff = new Backoff(options.backoff?.base, options.backoff?.max);
  let cursor = request.cursor ?? "";
  onStatus?.("connecting");
  for (;;) {
    signal?.throwIfAborted();
    const quiet = new Silence(silence, signal);
    let error: unknown;
    let live = false;
    try {
      // A watch that has a cursor goes on from there, and does not begin now.
      const responses = open({ ...request, cursor, fromNow: cursor === "" && (request.fromNow ?? false) }, { signal: quiet.signal });
      const reader = responses[Symbol.asyncIterator]();
      for (;;) {
        quiet.listen();
        const { done, value } = await reader.next();
        quiet.pause(); // the time that the caller takes is not the hub's silence
        if (quiet.silent) break;
        if (done) {
          signal?.throwIfAborted();
          return;
        }
        if (value.cursor) {
          if (value.cursor !== cursor) backoff.reset();
          cursor = value.cursor;
        }
        if (!live) {
          live = true;
          onStatus?.("live");
        }
        yield value;
        signal?.throwIfAborted();
      }
    } catch (e) {
      error = e;
    } finally {
      quiet.end(); // also when the caller leaves
    }
    signal?.throwIfAborted();
    const e = quiet.silent ? new DeckhandError("unavailable", "Nothing was heard from the hub, not even a heartbeat.", { cause: error }) : DeckhandError.from(error);
    if (!reconnect(e)) throw e;
    onStatus?.("lost");
    await sleep(Math.max(backoff.next(), e.retryAfterMs ?? 0), signal);
  }
}

/** mayMend reports whether a new connection may mend a broken watch. */
export function mayMend(e: DeckhandError): boolean {
  switch (e.rpcCode) {
    case "unavailable":
    case "aborted":
    case "deadline_exceeded":
    case "resource_exhausted":
    case "canceled":
      return true;
    case "internal":
    case "unknown":
      // A stream that broke in the middle. If the hub itself reports it, it has details.
      return !e.fromHub;
    default:
      return false;
  }
}

// Silence aborts a connection on which nothing comes for too long.
class Silence {
  private readonly abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  silent = false;

  constructor(
    private readonly limit: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    if (outer?.aborted) this.abort.abort(outer.reason);
    outer?.addEventListener("abort", this.pass);
  }

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  private readonly pass = () => this.abort.abort(this.outer?.reason);

  listen() {
    this.timer = setTimeout(() => {
      this.silent = true;
      this.abort.abort();
    }, this.limit);
  }

  pause() {
    clearTimeout(this.timer);
  }

  end() {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.pass);
    this.abort.abort();
  }
}
