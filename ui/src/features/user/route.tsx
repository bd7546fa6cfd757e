import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { tabs, type Tab } from "./tabs";

const page = createRoute({
  path: "/users",
  getParentRoute: () => shellRoute,
  validateSearch: (search): { tab?: Tab } => ({ tab: tabs.find((t) => t === search.tab) }),
  component: lazyRouteComponent(() => import("./UsersPage"), "UsersPage"),
});

export const userRoutes = [page] as const;
