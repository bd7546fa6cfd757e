import { createInfiniteQueryOptions, createQueryOptions } from "@connectrpc/connect-query";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { byToken } from "@/api/pages";
import { transport } from "@/api/transport";
import { shellRoute } from "@/app/root";
import { EventService } from "@/gen/deckhand/v1/event_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { momentsOf, parseReplaySearch } from "./search";

const page = createRoute({
  path: "/tasks/$task/replay",
  getParentRoute: () => shellRoute,
  validateSearch: parseReplaySearch,
  // The run is asked for while the page itself is loaded; the page shows what fails.
  loader: ({ context, params, preload }) => {
    if (preload) return; // a link that is pointed at is not yet followed
    void context.queries.prefetchQuery(createQueryOptions(TaskService.method.getTask, { taskId: params.task }, { transport }));
    void context.queries.prefetchInfiniteQuery(createInfiniteQueryOptions(EventService.method.listMoments, momentsOf(params.task), { transport, ...byToken }));
  },
  component: lazyRouteComponent(() => import("./ReplayPage"), "ReplayPage"),
});

export const replayRoutes = [page] as const;
