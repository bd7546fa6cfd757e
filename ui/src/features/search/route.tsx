import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseSearchSearch } from "./search";

const page = createRoute({
  path: "/search",
  getParentRoute: () => shellRoute,
  validateSearch: parseSearchSearch,
  component: lazyRouteComponent(() => import("./SearchPage"), "SearchPage"),
});

export const searchRoutes = [page] as const;
