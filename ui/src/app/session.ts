import { getRouteApi } from "@tanstack/react-router";
import type { Session } from "@/gen/deckhand/v1/session_pb";

const shell = getRouteApi("/shell");

// useSession returns the session of the user. It may be called below the shell.
export function useSession(): Session {
  return shell.useRouteContext({ select: (context) => context.session });
}
