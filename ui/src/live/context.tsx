import { createClient } from "@connectrpc/connect";
import type { QueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { base } from "@/api/base";
import { transport } from "@/api/transport";
import { EventService } from "@/gen/deckhand/v1/event_pb";
import { liveEvent } from "./event";
import { invalidateByEvents } from "./invalidate";
import { Live } from "./live";
import { EventStore, type TaskView } from "./store";
import type { Status } from "./stream";

type Context = { store: EventStore; live: Live };

const LiveContext = createContext<Context | undefined>(undefined);

// LiveProvider runs this tab's part in the one stream for as long as a person is
// logged in. who names the person.
export function LiveProvider(props: { who: string; queries: QueryClient; children: ReactNode }) {
  const { who, queries } = props;
  const [context, setContext] = useState<Context>();
  useEffect(() => {
    const events = createClient(EventService, transport);
    let live: Live | undefined;
    const store: EventStore = new EventStore({
      list: async (taskId, range) => {
        const page = await events.listEvents({
          taskId,
          beforeSeq: BigInt(range.before ?? 0),
          afterSeq: BigInt(range.after ?? 0),
          pageSize: range.size,
        });
        return { events: page.events.map(liveEvent), newest: Number(page.newestSeq) };
      },
      onOpenTasks: () => live?.tellWants(),
    });
    live = new Live({
      store,
      name: `deckhand ${base.pathname} ${who}`,
      open: (request, signal) => events.watch(request, { signal }),
      onReset: () => void queries.invalidateQueries(),
    });
    const stopLive = live.start();
    const stopInvalidating = invalidateByEvents(store, queries);
    setContext({ store, live });
    return () => {
      stopInvalidating();
      stopLive();
    };
  }, [who, queries]);
  return context && <LiveContext.Provider value={context}>{props.children}</LiveContext.Provider>;
}

export function useLive(): Context {
  const context = useContext(LiveContext);
  if (!context) throw new Error("useLive outside of LiveProvider");
  return context;
}

// useLiveStatus returns the status of the stream.
export function useLiveStatus(): Status {
  const { live } = useLive();
  return useSyncExternalStore(live.subscribe, live.status);
}

const nothing: TaskView = { events: [], version: 0, state: "loading", whole: false, loadingOlder: false };

// useTaskView returns a task's history, live, for as long as it is mounted.
export function useTaskView(taskId: string): TaskView {
  const { store } = useLive();
  const [, opened] = useState(0);
  useEffect(() => {
    const close = store.open(taskId);
    const stop = store.subscribe(taskId, () => opened((n) => n + 1));
    opened((n) => n + 1);
    return () => {
      stop();
      close();
    };
  }, [store, taskId]);
  return store.view(taskId) ?? nothing;
}
