import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseFleetSearch } from "./search";

const page = createRoute({
  path: "/fleet",
  getParentRoute: () => shellRoute,
  validateSearch: parseFleetSearch,
  component: lazyRouteComponent(() => import("./FleetPage"), "FleetPage"),
});

export const fleetRoutes = [page] as const;
