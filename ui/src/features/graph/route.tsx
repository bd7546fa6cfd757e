import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

// GraphSearch is what the address says: the view, and whether agents without edges, and
// edges that were never used, are left out.
export type GraphSearch = { view?: "table"; used?: boolean };

const page = createRoute({
  path: "/graph",
  getParentRoute: () => shellRoute,
  validateSearch: (search): GraphSearch => ({ view: search.view === "table" ? "table" : undefined, used: search.used === true ? true : undefined }),
  component: lazyRouteComponent(() => import("./GraphPage"), "GraphPage"),
});

export const graphRoutes = [page] as const;
