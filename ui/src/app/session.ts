import { getRouteApi } from "@tanstack/react-router";
import type { Session } from "@/gen/deckhand/v1/session_pb";

const shell = getRouteApi("/shell");

// useSession answers who is logged in: below the shell somebody is.
export function useSession(): Session {
  return shell.useRouteContext({ select: (context) => context.session });
}
