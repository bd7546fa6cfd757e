import type { WatchResponse } from "@/gen/deckhand/v1/event_pb";
import type { Item } from "./event";
import type { EventStore } from "./store";
import { Stream, type Request, type Status } from "./stream";

// What tabs of one browser tell each other.
type Message =
  | { kind: "items"; items: Item[]; cursor: string }
  | { kind: "open"; detailed: string[]; fresh: boolean }
  | { kind: "reset" }
  | { kind: "status"; status: Status }
  // A tab that has begun to lead asks what is wanted.
  | { kind: "hello" }
  | { kind: "want"; tab: string; tasks: string[] }
  | { kind: "bye"; tab: string };

export type LiveConfig = {
  store: EventStore;
  open: (request: Request, signal: AbortSignal) => AsyncIterable<WatchResponse>;
  // Names what the tabs share: the hub's address and the person.
  name: string;
  // What was fetched before may be out of date.
  onReset: () => void;
  locks?: LockManager;
  channel?: () => BroadcastChannel;
};

// What other tabs are told is gathered for so long, in milliseconds.
const gather = 50;

// Wants of a tab that is gone without a word are forgotten.
const wantLasts = 180_000;
const wantAgain = 45_000;

// Live is this tab's part in the browser's one stream. Whichever tab holds the
// lock leads: it runs the stream and passes on what comes. When it goes, another
// goes on after the cursor that it saw last.
export class Live {
  private readonly tab = Math.random().toString(36).slice(2);
  private readonly channel: BroadcastChannel | undefined;
  private readonly wants = new Map<string, { tasks: string[]; at: number }>();
  private readonly listeners = new Set<() => void>();
  private readonly leaving = new AbortController();
  private stream: Stream | undefined;
  private cursor = "";
  private current: Status = "connecting";
  private covered: string[] = [];

  constructor(private readonly cfg: LiveConfig) {
    if (cfg.channel) this.channel = cfg.channel();
    else if (typeof BroadcastChannel !== "undefined") this.channel = new BroadcastChannel(cfg.name);
    if (this.channel) this.channel.onmessage = (e: MessageEvent<Message>) => this.hear(e.data);
  }

  // start takes part until the answered function is called.
  start(): () => void {
    const locks = this.cfg.locks ?? (typeof navigator === "undefined" ? undefined : navigator.locks);
    const lead = () => this.lead();
    // Without locks, as on plain HTTP elsewhere than localhost, each tab has a
    // stream of its own.
    if (locks && this.channel) {
      void locks.request(this.cfg.name, { signal: this.leaving.signal }, lead).catch(() => {});
      this.say({ kind: "want", tab: this.tab, tasks: this.mine() });
    } else {
      void lead();
    }
    const renew = setInterval(() => this.tellWants(), wantAgain);
    document.addEventListener("visibilitychange", this.pass);
    const leave = () => {
      clearInterval(renew);
      removeEventListener("pagehide", leave);
      document.removeEventListener("visibilitychange", this.pass);
      this.pass();
      this.say({ kind: "bye", tab: this.tab });
      this.leaving.abort();
      this.stream?.stop();
      this.channel?.close();
    };
    addEventListener("pagehide", leave);
    return leave;
  }

  status = (): Status => this.current;

  subscribe = (fn: () => void): (() => void) => {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  };

  // tellWants says of which tasks this tab wants every event.
  tellWants() {
    if (this.stream) {
      this.watchAll();
      return;
    }
    this.say({ kind: "want", tab: this.tab, tasks: this.mine() });
  }

  private mine(): string[] {
    return this.cfg.store.openTasks();
  }

  private lead(): Promise<void> {
    if (this.leaving.signal.aborted) return Promise.resolve();
    this.stream = new Stream(
      {
        open: this.cfg.open,
        onItems: (items, cursor) => this.everywhere({ kind: "items", items, cursor }),
        onOpen: (detailed) => this.everywhere({ kind: "open", detailed, fresh: !this.opened }),
        onReset: () => this.everywhere({ kind: "reset" }),
        onStatus: (status) => this.everywhere({ kind: "status", status }),
      },
      this.cursor,
    );
    this.opened = this.cursor !== "";
    this.watchAll();
    this.say({ kind: "hello" });
    return this.stream.run();
  }

  // The stream has been open, or goes on from where another tab's was.
  private opened = false;

  private watchAll() {
    const now = Date.now();
    const tasks = [...this.mine()];
    for (const [tab, want] of this.wants) {
      if (now - want.at > wantLasts) this.wants.delete(tab);
      else tasks.push(...want.tasks);
    }
    this.stream?.watch(tasks);
  }

  private say(message: Message) {
    if (!this.leaving.signal.aborted) this.channel?.postMessage(message);
  }

  // What came and was not yet said to the other tabs. Should this tab die now,
  // another goes on after the cursor that it heard of: nothing is lost.
  private unsaid: { items: Item[]; cursor: string } | undefined;
  private saying: ReturnType<typeof setTimeout> | undefined;

  private pass = () => {
    clearTimeout(this.saying);
    this.saying = undefined;
    const { unsaid } = this;
    this.unsaid = undefined;
    if (unsaid) this.say({ kind: "items", ...unsaid });
  };

  private everywhere(message: Message) {
    if (message.kind === "items") {
      this.unsaid = { items: [...(this.unsaid?.items ?? []), ...message.items], cursor: message.cursor };
      // The timers of a page that nobody sees are slow.
      if (document.hidden) this.pass();
      else this.saying ??= setTimeout(this.pass, gather);
    } else {
      this.pass();
      this.say(message);
    }
    this.hear(message);
    if (message.kind === "open") this.opened = true;
  }

  private hear(message: Message) {
    switch (message.kind) {
      case "items":
        this.cursor = message.cursor;
        this.cfg.store.apply(message.items);
        break;
      case "open":
        this.covered = message.detailed;
        this.cfg.store.covered(message.detailed);
        // What was fetched before the stream stood may lack what happened
        // between.
        if (message.fresh) this.cfg.onReset();
        break;
      case "reset":
        this.cursor = "";
        this.opened = false;
        break;
      case "status":
        if (this.current === message.status) break;
        this.current = message.status;
        for (const fn of this.listeners) fn();
        break;
      case "hello":
        this.say({ kind: "want", tab: this.tab, tasks: this.mine() });
        break;
      case "want": {
        if (!this.stream) break;
        this.wants.set(message.tab, { tasks: message.tasks, at: Date.now() });
        this.watchAll();
        // One that is new learns how it stands.
        this.say({ kind: "status", status: this.current });
        this.say({ kind: "open", detailed: this.covered, fresh: false });
        break;
      }
      case "bye":
        if (this.wants.delete(message.tab)) this.watchAll();
        break;
    }
  }
}
