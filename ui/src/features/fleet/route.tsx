import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const page = createRoute({
  path: "/fleet",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./FleetPage"), "FleetPage"),
});

export const fleetRoutes = [page] as const;
