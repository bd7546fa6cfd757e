import { Backoff, ErrorCode, isError, sleep, watch, type WatchRequest } from "@deckhand/sdk";
import type { WatchResponse } from "@/gen/deckhand/v1/event_pb";
import { liveEvent, livePiece, liveProgress, summaryTypes, type Item } from "./event";

// Status is how the stream stands. "live" means that the hub was heard lately.
export type Status = "connecting" | "live" | "lost" | "off";

export type Request = WatchRequest;

export type StreamConfig = {
  // Opens EventService.Watch.
  open: (request: Request, signal: AbortSignal) => AsyncIterable<WatchResponse>;
  // Gets what came, in order, with the cursor after it.
  onItems: (items: Item[], cursor: string) => void;
  // The stream stands and sends these tasks in every detail.
  onOpen: (detailed: string[]) => void;
  // What was kept is too old to go on from: whoever holds data asks for it anew.
  onReset: () => void;
  onStatus: (status: Status) => void;
  // How long nothing may come, in milliseconds. The hub sends a heartbeat every
  // 15 s when nothing else is sent.
  silence?: number;
  // The first wait before another try, in milliseconds.
  backoff?: number;
};

// Stream is the one Watch of this browser. It goes on after the last cursor for as long as it
// runs: no stored event is missed or repeated.
export class Stream {
  private readonly cfg: StreamConfig;
  private readonly backoff: Backoff;
  private detailed: string[] = [];
  private stopped = false;
  private abort = new AbortController();
  // The cause of the last abort: another set of tasks is not a failure.
  private again = false;
  // The hub was heard since the last failure.
  private heard = true;

  constructor(
    cfg: StreamConfig,
    // After what to begin; empty for what happens from now on.
    private cursor: string,
  ) {
    this.cfg = cfg;
    this.backoff = new Backoff(cfg.backoff);
  }

  // watch says of which tasks every event is wanted. The stream is opened anew
  // where it stands.
  watch(detailed: string[]) {
    const next = [...new Set(detailed)].sort().slice(0, 100);
    if (next.join(" ") === this.detailed.join(" ")) return;
    this.detailed = next;
    this.again = true;
    this.abort.abort();
  }

  stop() {
    this.stopped = true;
    this.abort.abort();
  }

  // run ends when the stream is stopped, or when the hub no longer knows the
  // caller.
  async run(): Promise<void> {
    while (!this.stopped) {
      this.abort = new AbortController();
      this.again = false;
      const error = await this.once().then(() => undefined, (e: unknown) => e);
      if (this.stopped) break;
      if (this.again) continue;
      if (isError(error, "unauthenticated")) break;
      if (isError(error, ErrorCode.CursorExpired)) {
        this.cursor = "";
        this.cfg.onReset();
      }
      this.tell("lost");
      await sleep(this.backoff.next(), this.abort.signal);
    }
    this.cfg.onStatus("off");
  }

  private tell(status: Status) {
    // A stream that is opened again after a failure stays lost until something comes.
    if (status === "connecting" && !this.heard) return;
    if (status === "live") this.heard = true;
    if (status === "lost") this.heard = false;
    this.cfg.onStatus(status);
  }

  private async once(): Promise<void> {
    const detailed = this.detailed;
    const request = { cursor: this.cursor, fromNow: this.cursor === "", follow: true, thinking: true, progress: true, types: summaryTypes, detailedTaskIds: detailed };
    const responses = watch((r, options) => this.cfg.open(r, options.signal), request, {
      signal: this.abort.signal,
      silence: this.cfg.silence,
      backoff: { base: this.cfg.backoff },
      onStatus: (status) => {
        this.tell(status);
        if (status === "live") this.cfg.onOpen(detailed);
      },
      // Whatever else the hub refuses, it may take later.
      reconnect: (e) => !isError(e, "unauthenticated", ErrorCode.CursorExpired),
    });
    for await (const { cursor, item } of responses) {
      if (cursor) {
        if (cursor !== this.cursor) this.backoff.reset();
        this.cursor = cursor;
      }
      this.cfg.onItems(itemsOf(item), this.cursor);
    }
  }
}

function itemsOf(item: WatchResponse["item"]): Item[] {
  switch (item.case) {
    case "event":
      return [{ event: liveEvent(item.value) }];
    case "thinking":
      return [{ piece: livePiece(item.value) }];
    case "stepProgress":
      return [{ progress: liveProgress(item.value) }];
    default:
      return []; // a heartbeat, whose cursor counts
  }
}
