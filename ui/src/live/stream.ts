import { Code, ConnectError } from "@connectrpc/connect";
import { problemOf } from "@/api/error";
import type { WatchResponse } from "@/gen/deckhand/v1/event_pb";
import { liveEvent, livePiece, liveProgress, summaryTypes, type Item } from "./event";

// Status is how the stream stands. "live" means that the hub was heard lately.
export type Status = "connecting" | "live" | "lost" | "off";

export type Request = {
  cursor: string;
  fromNow: boolean;
  follow: boolean;
  thinking: boolean;
  progress: boolean;
  types: string[];
  detailedTaskIds: string[];
};

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

const maxBackoff = 10_000;

// Stream is the one Watch of this browser. It reconnects after the last cursor
// for as long as it runs: no stored event is missed or repeated.
export class Stream {
  private readonly cfg: Required<StreamConfig>;
  private detailed: string[] = [];
  private stopped = false;
  private failures = 0;
  private abort = new AbortController();
  // The cause of the last abort: another set of tasks is not a failure.
  private again = false;

  constructor(
    cfg: StreamConfig,
    // After what to begin; empty for what happens from now on.
    private cursor: string,
  ) {
    this.cfg = { silence: 45_000, backoff: 250, ...cfg };
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
      const before = this.cursor;
      const error = await this.once();
      if (this.stopped) break;
      if (this.again) continue;
      if (error instanceof ConnectError && error.code === Code.Unauthenticated) {
        this.cfg.onStatus("off");
        return;
      }
      if (error && problemOf(error).code === "CURSOR_EXPIRED") {
        this.cursor = "";
        this.cfg.onReset();
      }
      if (this.cursor !== before) this.failures = 0;
      this.cfg.onStatus("lost");
      await this.wait(Math.min(this.cfg.backoff * 2 ** this.failures++, maxBackoff) * (0.5 + Math.random() / 2));
    }
    this.cfg.onStatus("off");
  }

  private async once(): Promise<unknown> {
    const abort = this.abort;
    const detailed = this.detailed;
    if (this.failures === 0) this.cfg.onStatus("connecting");
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => abort.abort(), this.cfg.silence);
    };
    heard();
    try {
      let open = false;
      const responses = this.cfg.open(
        {
          cursor: this.cursor,
          fromNow: this.cursor === "",
          follow: true,
          thinking: true,
          progress: true,
          types: summaryTypes,
          detailedTaskIds: detailed,
        },
        abort.signal,
      );
      for await (const response of responses) {
        if (abort.signal.aborted) return undefined;
        heard();
        if (response.cursor) this.cursor = response.cursor;
        if (!open) {
          open = true;
          this.failures = 0;
          this.cfg.onStatus("live");
          this.cfg.onOpen(detailed);
        }
        if (response.item.case === "event") {
          this.cfg.onItems([{ event: liveEvent(response.item.value) }], this.cursor);
        } else if (response.item.case === "thinking") {
          this.cfg.onItems([{ piece: livePiece(response.item.value) }], this.cursor);
        } else if (response.item.case === "stepProgress") {
          this.cfg.onItems([{ progress: liveProgress(response.item.value) }], this.cursor);
        } else {
          this.cfg.onItems([], this.cursor);
        }
      }
      return undefined;
    } catch (error) {
      return error;
    } finally {
      clearTimeout(quiet);
    }
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const signal = this.abort.signal;
      const done = () => {
        clearTimeout(timer);
        removeEventListener("online", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      // A machine that has a network again does not wait.
      addEventListener("online", done);
      if (!signal.aborted) signal.addEventListener("abort", done, { once: true });
      else if (this.again || this.stopped) done();
    });
  }
}
