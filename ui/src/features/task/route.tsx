import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseTaskSearch } from "./search";

const list = createRoute({
  path: "/tasks",
  getParentRoute: () => shellRoute,
  validateSearch: parseTaskSearch,
  component: lazyRouteComponent(() => import("./TasksPage"), "TasksPage"),
});

export const taskRoutes = [list] as const;
