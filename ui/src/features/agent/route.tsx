import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { sides, type Side } from "./sides";

const page = createRoute({
  path: "/agents/$agent",
  getParentRoute: () => shellRoute,
  // Which of its tasks is shown, the newest by default; what stands on the
  // right; and whether the terminal is open.
  validateSearch: (search): { task?: string; side?: Side; terminal?: "jail" | "host" } => ({
    task: typeof search.task === "string" && search.task ? search.task.slice(0, 128) : undefined,
    side: sides.find((s) => s === search.side),
    terminal: search.terminal === "jail" || search.terminal === "host" ? search.terminal : undefined,
  }),
  component: lazyRouteComponent(() => import("./AgentPage"), "AgentPage"),
});

export const agentRoutes = [page] as const;
