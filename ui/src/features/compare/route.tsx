import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const id = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 128) : undefined);

const page = createRoute({
  path: "/compare",
  getParentRoute: () => shellRoute,
  validateSearch: (search): { a?: string; b?: string } => ({ a: id(search.a), b: id(search.b) }),
  component: lazyRouteComponent(() => import("./ComparePage"), "ComparePage"),
});

export const compareRoutes = [page] as const;
