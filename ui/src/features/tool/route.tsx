import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseToolSearch } from "./search";

const page = createRoute({
  path: "/tools",
  getParentRoute: () => shellRoute,
  validateSearch: parseToolSearch,
  component: lazyRouteComponent(() => import("./ToolsPage"), "ToolsPage"),
});

export const toolRoutes = [page] as const;
