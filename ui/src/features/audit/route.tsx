import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

// AuditSearch is what the list's address says: only of one object, by one user,
// of one kind.
export type AuditSearch = { object?: string; by?: string; action?: string };

const text = (v: unknown, most: number) => (typeof v === "string" && v !== "" ? v.slice(0, most) : undefined);

// parseAuditSearch reads an address; what it does not know is left out.
export const parseAuditSearch = (search: Record<string, unknown>): AuditSearch => ({
  object: text(search.object, 128),
  by: text(search.by, 128),
  action: text(search.action, 64),
});

const page = createRoute({
  path: "/audit",
  getParentRoute: () => shellRoute,
  validateSearch: parseAuditSearch,
  component: lazyRouteComponent(() => import("./AuditPage"), "AuditPage"),
});

export const auditRoutes = [page] as const;
