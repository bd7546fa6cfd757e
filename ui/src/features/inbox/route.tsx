import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { readSearch } from "./search";

const page = createRoute({
  path: "/inbox",
  getParentRoute: () => shellRoute,
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import("./InboxPage"), "InboxPage"),
});

export const inboxRoutes = [page] as const;
