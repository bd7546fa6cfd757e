import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parsePolicySearch } from "./search";

const page = createRoute({
  path: "/policy",
  getParentRoute: () => shellRoute,
  validateSearch: parsePolicySearch,
  component: lazyRouteComponent(() => import("./PolicyPage"), "PolicyPage"),
});

export const policyRoutes = [page] as const;
