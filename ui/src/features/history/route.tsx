import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseStatisticsSearch } from "./search";

const page = createRoute({
  path: "/statistics",
  getParentRoute: () => shellRoute,
  validateSearch: parseStatisticsSearch,
  component: lazyRouteComponent(() => import("./StatisticsPage"), "StatisticsPage"),
});

export const historyRoutes = [page] as const;
