import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseNodeSearch } from "./search";

const list = createRoute({
  path: "/nodes",
  getParentRoute: () => shellRoute,
  validateSearch: parseNodeSearch,
  component: lazyRouteComponent(() => import("./NodesPage"), "NodesPage"),
});

const detail = createRoute({
  path: "/nodes/$nodeId",
  getParentRoute: () => shellRoute,
  // Of which jail the charts are; of the machine where unset.
  validateSearch: (search: Record<string, unknown>): { jail?: string } => ({
    jail: typeof search.jail === "string" && search.jail !== "" ? search.jail.slice(0, 200) : undefined,
  }),
  component: lazyRouteComponent(() => import("./NodePage"), "NodePage"),
});

export const nodeRoutes = [list, detail] as const;
