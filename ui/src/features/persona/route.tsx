import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const create = createRoute({
  path: "/agents/new",
  getParentRoute: () => shellRoute,
  // The persona to begin with, or "blank"; unset to choose.
  validateSearch: (search): { from?: string } => ({
    from: typeof search.from === "string" ? search.from.slice(0, 100) : undefined,
  }),
  component: lazyRouteComponent(() => import("./NewAgentPage"), "NewAgentPage"),
});

const edit = createRoute({
  path: "/agents/$agent/edit",
  getParentRoute: () => shellRoute,
  // The version that the text is compared with; unset to edit.
  validateSearch: (search): { version?: number } => ({
    version: Number.isInteger(Number(search.version)) && Number(search.version) > 0 ? Number(search.version) : undefined,
  }),
  component: lazyRouteComponent(() => import("./EditAgentPage"), "EditAgentPage"),
});

export const personaRoutes = [create, edit] as const;
