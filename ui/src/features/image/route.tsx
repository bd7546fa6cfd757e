import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const page = createRoute({
  path: "/images",
  getParentRoute: () => shellRoute,
  // The node whose images are listed, by name; the first one where unset.
  validateSearch: (search: Record<string, unknown>): { node?: string } => ({
    node: typeof search.node === "string" && search.node !== "" ? search.node.slice(0, 128) : undefined,
  }),
  component: lazyRouteComponent(() => import("./ImagesPage"), "ImagesPage"),
});

export const imageRoutes = [page] as const;
