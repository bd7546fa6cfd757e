import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseNotificationSearch } from "./words";

const page = createRoute({
  path: "/notifications",
  getParentRoute: () => shellRoute,
  validateSearch: parseNotificationSearch,
  component: lazyRouteComponent(() => import("./DestinationsPage"), "DestinationsPage"),
});

export const destinationRoutes = [page] as const;
