import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const page = createRoute({
  path: "/api",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./ReferencePage"), "ReferencePage"),
});

export const referenceRoutes = [page] as const;
