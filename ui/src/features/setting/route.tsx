import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const page = createRoute({
  path: "/settings",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./SettingsPage"), "SettingsPage"),
});

export const settingRoutes = [page] as const;
