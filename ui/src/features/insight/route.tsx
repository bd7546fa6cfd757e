import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { periods } from "@/features/history/search";

// InsightSearch is the filter in the address.
export type InsightSearch = { days?: number; agent?: string };

const page = createRoute({
  path: "/insights",
  getParentRoute: () => shellRoute,
  validateSearch: (search: Record<string, unknown>): InsightSearch => ({
    days: periods.find((d) => d === search.days),
    agent: typeof search.agent === "string" && search.agent !== "" ? search.agent.slice(0, 128) : undefined,
  }),
  component: lazyRouteComponent(() => import("./InsightsPage"), "InsightsPage"),
});

export const insightRoutes = [page] as const;
