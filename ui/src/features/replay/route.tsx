import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseReplaySearch } from "./search";

const page = createRoute({
  path: "/tasks/$task/replay",
  getParentRoute: () => shellRoute,
  validateSearch: parseReplaySearch,
  component: lazyRouteComponent(() => import("./ReplayPage"), "ReplayPage"),
});

export const replayRoutes = [page] as const;
