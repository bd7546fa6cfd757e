import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

// CredentialSearch is the filter in the address: the requests of one credential.
export type CredentialSearch = { of?: string };

const page = createRoute({
  path: "/credentials",
  getParentRoute: () => shellRoute,
  validateSearch: (search: Record<string, unknown>): CredentialSearch => ({
    of: typeof search.of === "string" && search.of !== "" ? search.of.slice(0, 63) : undefined,
  }),
  component: lazyRouteComponent(() => import("./CredentialsPage"), "CredentialsPage"),
});

export const credentialRoutes = [page] as const;
