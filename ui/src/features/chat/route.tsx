import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 128) : undefined);

const page = createRoute({
  path: "/chat",
  getParentRoute: () => shellRoute,
  // The agent that is spoken to, and the newest chat of a conversation, or a task
  // that was given here.
  validateSearch: (search): { agent?: string; chat?: string; task?: string } => ({
    agent: text(search.agent),
    chat: text(search.chat),
    task: text(search.task),
  }),
  component: lazyRouteComponent(() => import("./ChatPage"), "ChatPage"),
});

export const chatRoutes = [page] as const;
