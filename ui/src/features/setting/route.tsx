import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const profile = createRoute({
  path: "/settings",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./SettingsPage"), "SettingsPage"),
});

const organisation = createRoute({
  path: "/settings/organisation",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./OrganisationPage"), "OrganisationPage"),
});

const appearance = createRoute({
  path: "/settings/appearance",
  getParentRoute: () => shellRoute,
  component: lazyRouteComponent(() => import("./AppearancePage"), "AppearancePage"),
});

export const settingRoutes = [profile, organisation, appearance] as const;
