import { createClient } from "@connectrpc/connect";
import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { transport } from "@/api/transport";
import { SessionService, type Session } from "@/gen/deckhand/v1/session_pb";

export const sessions = createClient(SessionService, transport);

const options = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session> => {
    const { session } = await sessions.getSession({});
    if (!session) throw new Error("The hub returned no session. Log in again.");
    return session;
  },
  staleTime: Infinity,
});

// fetchSession returns the session, from the cache or from the hub.
export function fetchSession(queries: QueryClient): Promise<Session> {
  return queries.ensureQueryData(options);
}

// isHubPage reports whether a path is not one of the console, but of a page of the hub's own
// that asks whether a program may be connected.
export function isHubPage(path: string | undefined): path is string {
  return path !== undefined && path.startsWith("/oauth/");
}

// setSession stores the session of a user who has just logged in.
export function setSession(queries: QueryClient, session: Session) {
  queries.setQueryData(options.queryKey, session);
}

// forgetSession drops all that was shown to somebody who is no longer logged in.
export function forgetSession(queries: QueryClient) {
  queries.removeQueries({ queryKey: options.queryKey });
}

const roles = ["viewer", "basic", "advanced", "admin"];

// may reports whether a session's role includes another role.
export function may(session: Session, role: "viewer" | "basic" | "advanced" | "admin"): boolean {
  return roles.indexOf(session.role) >= roles.indexOf(role);
}
