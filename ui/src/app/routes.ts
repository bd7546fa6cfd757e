import { createRoute, redirect } from "@tanstack/react-router";
import { loginRoute } from "@/features/session/route";
import { agentRoutes } from "@/features/agent/route";
import { auditRoutes } from "@/features/audit/route";
import { budgetRoutes } from "@/features/budget/route";
import { credentialRoutes } from "@/features/credential/route";
import { compareRoutes } from "@/features/compare/route";
import { destinationRoutes } from "@/features/destination/route";
import { chatRoutes } from "@/features/chat/route";
import { fleetRoutes } from "@/features/fleet/route";
import { graphRoutes } from "@/features/graph/route";
import { historyRoutes } from "@/features/history/route";
import { imageRoutes } from "@/features/image/route";
import { inboxRoutes } from "@/features/inbox/route";
import { memoryRoutes } from "@/features/memory/route";
import { knowledgeRoutes } from "@/features/knowledge/route";
import { insightRoutes } from "@/features/insight/route";
import { nodeRoutes } from "@/features/node/route";
import { patternRoutes } from "@/features/pattern/route";
import { personaRoutes } from "@/features/persona/route";
import { policyRoutes } from "@/features/policy/route";
import { providerRoutes } from "@/features/provider/route";
import { referenceRoutes } from "@/features/reference/route";
import { replayRoutes } from "@/features/replay/route";
import { searchRoutes } from "@/features/search/route";
import { settingRoutes } from "@/features/setting/route";
import { taskRoutes } from "@/features/task/route";
import { toolRoutes } from "@/features/tool/route";
import { triggerRoutes } from "@/features/trigger/route";
import { userRoutes } from "@/features/user/route";
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
  shellRoute.addChildren([
    homeRoute,
    ...agentRoutes,
    ...auditRoutes,
    ...budgetRoutes,
    ...credentialRoutes,
    ...compareRoutes,
    ...destinationRoutes,
    ...chatRoutes,
    ...fleetRoutes,
    ...graphRoutes,
    ...historyRoutes,
    ...imageRoutes,
    ...inboxRoutes,
    ...memoryRoutes,
    ...knowledgeRoutes,
    ...insightRoutes,
    ...nodeRoutes,
    ...patternRoutes,
    ...personaRoutes,
    ...policyRoutes,
    ...providerRoutes,
    ...referenceRoutes,
    ...replayRoutes,
    ...searchRoutes,
    ...settingRoutes,
    ...taskRoutes,
    ...toolRoutes,
    ...triggerRoutes,
    ...userRoutes,
  ]),
]);
