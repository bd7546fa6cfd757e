import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseSince } from "./since";

const page = createRoute({
  path: "/providers",
  getParentRoute: () => shellRoute,
  validateSearch: parseSince,
  component: lazyRouteComponent(() => import("./ProvidersPage"), "ProvidersPage"),
});

// Where a provider sends the code of a login.
const callback = createRoute({
  path: "/providers/callback",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./LoginCallback"), "LoginCallback"),
});

export const providerRoutes = [page, callback] as const;
