import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "@/app/root";

export const loginRoute = createRoute({
  path: "/login",
  getParentRoute: () => rootRoute,
  // Where to go then: a path of this console.
  validateSearch: (search): { next?: string } => ({
    next: typeof search.next === "string" && /^\/(?![/\\])/.test(search.next) ? search.next : undefined,
  }),
  component: lazyRouteComponent(() => import("./LoginPage"), "LoginPage"),
});
