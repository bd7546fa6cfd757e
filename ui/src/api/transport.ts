import { type Interceptor } from "@connectrpc/connect";
import { createTransport } from "@deckhand/sdk";
import { base } from "./base";
import { lostSession } from "./error";

const listeners = new Set<() => void>();

// onSessionLost tells when the hub no longer knows who calls.
export function onSessionLost(fn: () => void): () => void {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

const noticeLostSession: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    if (lostSession(error)) for (const fn of listeners) fn();
    throw error;
  }
};

// transport calls this hub. The session is a cookie, which the browser adds and no script
// can read. Queries are asked again by query.ts, which shows that the hub is not reached;
// what changes something is sent again by a person.
export const transport = createTransport({ url: base, retries: 0, interceptors: [noticeLostSession] });
