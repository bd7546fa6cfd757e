import { createRoute, redirect } from "@tanstack/react-router";
import { loginRoute } from "@/features/session/route";
import { agentRoutes } from "@/features/agent/route";
import { fleetRoutes } from "@/features/fleet/route";
import { inboxRoutes } from "@/features/inbox/route";
import { personaRoutes } from "@/features/persona/route";
import { nodeRoutes } from "@/features/node/route";
import { taskRoutes } from "@/features/task/route";
import { rootRoute, shellRoute } from "./root";

const homeRoute = createRoute({
  path: "/",
  getParentRoute: () => shellRoute,
  beforeLoad: () => {
    throw redirect({ to: "/fleet", replace: true });
  },
});

// A feature's routes are one line here, in alphabetical order.
export const routeTree = rootRoute.addChildren([
  loginRoute,
  shellRoute.addChildren([homeRoute, ...agentRoutes, ...fleetRoutes, ...inboxRoutes, ...nodeRoutes, ...personaRoutes, ...taskRoutes]),
]);
