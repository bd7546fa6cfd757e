import { createInfiniteQueryOptions, createQueryOptions } from "@connectrpc/connect-query";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { byToken } from "@/api/pages";
import { transport } from "@/api/transport";
import type { Early } from "@/app/early";
import { shellRoute } from "@/app/root";
import { EventService } from "@/gen/deckhand/v1/event_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { momentsOf, newestOf, parseReplaySearch } from "./search";

// The run is asked for while the page itself is loaded; the page shows what fails.
const early: Early = (queries, { task = "" }, { at }) => {
  void queries.prefetchQuery(createQueryOptions(TaskService.method.getTask, { taskId: task }, { transport }));
  // The whole of it is read beside the first rows only where they may be anywhere in it.
  if (at === undefined) void queries.prefetchQuery(createQueryOptions(EventService.method.listMoments, newestOf(task), { transport }));
  else void queries.prefetchInfiniteQuery(createInfiniteQueryOptions(EventService.method.listMoments, momentsOf(task), { transport, ...byToken }));
};

const page = createRoute({
  path: "/tasks/$task/replay",
  getParentRoute: () => shellRoute,
  validateSearch: parseReplaySearch,
  staticData: { early },
  loader: ({ context, params, preload, location }) => {
    if (!preload) early(context.queries, params, location.search); // a link that is pointed at is not yet followed
  },
  component: lazyRouteComponent(() => import("./ReplayPage"), "ReplayPage"),
});

export const replayRoutes = [page] as const;
