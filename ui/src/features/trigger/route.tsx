import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseTriggerSearch, text, type TriggersSearch } from "./words";

const agentOf = (search: Record<string, unknown>): TriggersSearch => ({ agent: text(search.agent) });

const list = createRoute({
  path: "/triggers",
  getParentRoute: () => shellRoute,
  validateSearch: agentOf,
  component: lazyRouteComponent(() => import("./TriggersPage"), "TriggersPage"),
});

const fresh = createRoute({
  path: "/triggers/new",
  getParentRoute: () => shellRoute,
  // For which agent, where somebody comes from one.
  validateSearch: agentOf,
  component: lazyRouteComponent(() => import("./NewTriggerPage"), "NewTriggerPage"),
});

const detail = createRoute({
  path: "/triggers/$trigger",
  getParentRoute: () => shellRoute,
  validateSearch: parseTriggerSearch,
  component: lazyRouteComponent(() => import("./TriggerPage"), "TriggerPage"),
});

export const triggerRoutes = [list, fresh, detail] as const;
