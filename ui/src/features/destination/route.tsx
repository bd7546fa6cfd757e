import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseNoticeSearch } from "./words";

const page = createRoute({
  path: "/notifications",
  getParentRoute: () => shellRoute,
  validateSearch: parseNoticeSearch,
  component: lazyRouteComponent(() => import("./DestinationsPage"), "DestinationsPage"),
});

export const destinationRoutes = [page] as const;
