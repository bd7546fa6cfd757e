import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { groupings, type FleetSearch } from "./search";

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 100) : undefined);

const page = createRoute({
  path: "/fleet",
  getParentRoute: () => shellRoute,
  validateSearch: (search): FleetSearch => ({
    q: text(search.q),
    status: text(search.status),
    group: groupings.find((g) => g === search.group),
  }),
  component: lazyRouteComponent(() => import("./FleetPage"), "FleetPage"),
});

export const fleetRoutes = [page] as const;
