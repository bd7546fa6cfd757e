import { createRouter } from "@tanstack/react-router";
import type { QueryClient } from "@tanstack/react-query";
import { basePath } from "@/api/base";
import { Skeletons } from "@/components/Skeleton";
import { PageError } from "./PageError";
import { routeTree } from "./routes";

export function newRouter(queries: QueryClient) {
  return createRouter({
    routeTree,
    basepath: basePath || "/",
    context: { queries },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0, // what is fetched is kept by the query client
    defaultPendingMs: 150,
    defaultPendingComponent: () => (
      <div className="p-5">
        <Skeletons />
      </div>
    ),
    defaultErrorComponent: PageError,
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
