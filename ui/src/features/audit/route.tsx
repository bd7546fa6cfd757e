import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseAuditSearch } from "./search";

const page = createRoute({
  path: "/audit",
  getParentRoute: () => shellRoute,
  validateSearch: parseAuditSearch,
  component: lazyRouteComponent(() => import("./AuditPage"), "AuditPage"),
});

export const auditRoutes = [page] as const;
