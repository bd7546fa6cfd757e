import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parsePatternSearch } from "./search";

const list = createRoute({
  path: "/patterns",
  getParentRoute: () => shellRoute,
  validateSearch: parsePatternSearch,
  component: lazyRouteComponent(() => import("./PatternsPage"), "PatternsPage"),
});

const one = createRoute({
  path: "/patterns/$pattern",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./PatternPage"), "PatternPage"),
});

export const patternRoutes = [list, one] as const;
