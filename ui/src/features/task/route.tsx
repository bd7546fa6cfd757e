import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseDetailSearch, parseTaskSearch } from "./search";

const list = createRoute({
  path: "/tasks",
  getParentRoute: () => shellRoute,
  validateSearch: parseTaskSearch,
  component: lazyRouteComponent(() => import("./TasksPage"), "TasksPage"),
});

const detail = createRoute({
  path: "/tasks/$task",
  getParentRoute: () => shellRoute,
  validateSearch: parseDetailSearch,
  component: lazyRouteComponent(() => import("./TaskPage"), "TaskPage"),
});

export const taskRoutes = [list, detail] as const;
