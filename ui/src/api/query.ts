import { QueryClient } from "@tanstack/react-query";
import { failedInside, lostSession, problemOf } from "./error";

// What the hub says of itself is live: queries are asked again when an event
// says so, see live/invalidate.ts, and not by time.
export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 30_000,
        refetchOnWindowFocus: false,
        retry: (failures, error) => !lostSession(error) && failures < (problemOf(error).unreachable ? 20 : failedInside(error) ? 2 : 0),
        retryDelay: (failures) => Math.min(500 * 2 ** failures, 5_000) * (0.75 + Math.random() / 2),
      },
      mutations: { retry: false },
    },
  });
}
