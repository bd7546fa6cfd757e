import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const page = createRoute({
  path: "/budgets",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./BudgetsPage"), "BudgetsPage"),
});

export const budgetRoutes = [page] as const;
