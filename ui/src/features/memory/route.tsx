import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseMemorySearch } from "./search";

const page = createRoute({
  path: "/memory",
  getParentRoute: () => shellRoute,
  validateSearch: parseMemorySearch,
  component: lazyRouteComponent(() => import("./MemoryPage"), "MemoryPage"),
});

export const memoryRoutes = [page] as const;
