import { createRootRouteWithContext, createRoute, Link, Outlet, redirect } from "@tanstack/react-router";
import type { QueryClient } from "@tanstack/react-query";
import { Empty } from "@/components/Empty";
import { Problem } from "@/components/Problem";
import { fetchSession } from "@/features/session/queries";
import { lostSession } from "@/api/error";
import { Shell } from "./Shell";

export type RouterContext = { queries: QueryClient };

export const rootRoute = createRootRouteWithContext<RouterContext>()({
  component: Outlet,
  notFoundComponent: () => (
    <Empty title="Page not found">
      <Link to="/fleet" className="underline">
        Go to Fleet
      </Link>
    </Empty>
  ),
  errorComponent: ({ error, reset }) => (
    <div className="p-5">
      <Problem error={error} retry={reset} />
    </div>
  ),
});

// shellRoute is what all pages for somebody who is logged in are below.
export const shellRoute = createRoute({
  id: "shell",
  getParentRoute: () => rootRoute,
  component: Shell,
  beforeLoad: async ({ context, location }) => {
    try {
      return { session: await fetchSession(context.queries) };
    } catch (error) {
      if (lostSession(error)) throw redirect({ to: "/login", search: { next: location.href }, replace: true });
      throw error;
    }
  },
});
