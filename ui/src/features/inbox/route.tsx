import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const page = createRoute({
  path: "/inbox",
  getParentRoute: () => shellRoute,
  // Which item is open, and whether those that were answered show too.
  validateSearch: (search): { item?: string; all?: boolean } => ({
    item: typeof search.item === "string" && search.item ? search.item.slice(0, 128) : undefined,
    all: search.all === true ? true : undefined,
  }),
  component: lazyRouteComponent(() => import("./InboxPage"), "InboxPage"),
});

export const inboxRoutes = [page] as const;
