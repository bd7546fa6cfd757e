import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseSince } from "./since";

const page = createRoute({
  path: "/providers",
  getParentRoute: () => shellRoute,
  validateSearch: parseSince,
  component: lazyRouteComponent(() => import("./ProvidersPage"), "ProvidersPage"),
});

export const providerRoutes = [page] as const;
