import type { QueryClient } from "@tanstack/react-query";
import type { AnyRouter } from "@tanstack/react-router";

// Early asks for what a page shows first, before it is known who asks: the hub refuses
// what they may not see, and the page asks again for what has failed.
export type Early = (queries: QueryClient, params: Partial<Record<string, string>>, search: Record<string, unknown>) => void;

declare module "@tanstack/react-router" {
  interface StaticDataRouteOption {
    early?: Early;
  }
}

// startEarly fetches the program of the page that is opened first, and what it asks for,
// beside the session, and not after it.
export function startEarly(router: AnyRouter, queries: QueryClient) {
  const { pathname, search } = router.latestLocation;
  const [routes, params] = router.getMatchedRoutes(pathname);
  for (const route of routes) {
    const { component, staticData } = route.options as { component?: { preload?: () => Promise<unknown> }; staticData?: { early?: Early } };
    // What cannot be loaded now is loaded, and reported, by the page.
    component?.preload?.().catch(() => undefined);
    staticData?.early?.(queries, params, search as Record<string, unknown>);
  }
}
