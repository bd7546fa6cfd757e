import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";
import { parseNodeSearch } from "./search";

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 200) : undefined);

const list = createRoute({
  path: "/nodes",
  getParentRoute: () => shellRoute,
  validateSearch: parseNodeSearch,
  component: lazyRouteComponent(() => import("./NodesPage"), "NodesPage"),
});

const detail = createRoute({
  path: "/nodes/$nodeId",
  getParentRoute: () => shellRoute,
  // Of which jail the charts are, of the machine where unset; in which agent's
  // jail a terminal is open, or with @host on the machine itself; of which jail the
  // files are shown; and which folder or file of the machine.
  validateSearch: (search: Record<string, unknown>): { jail?: string; terminal?: string; files?: string; path?: string } => ({
    jail: text(search.jail),
    files: text(search.files),
    terminal: text(search.terminal),
    path: typeof search.path === "string" && search.path.startsWith("/") ? search.path.slice(0, 4096) : undefined,
  }),
  component: lazyRouteComponent(() => import("./NodePage"), "NodePage"),
});

export const nodeRoutes = [list, detail] as const;
