import type { Interceptor } from "@connectrpc/connect";
import { Backoff, sleep } from "./backoff.js";
import { DeckhandError } from "./error.js";
import { ErrorCode } from "./gen/errors.js";
import { keyed, repeatable } from "./gen/procedures.js";
import { newIdempotencyKey } from "./key.js";

/** keyHeader has the idempotency key of a call. */
export const keyHeader = "Idempotency-Key";

// longest is how long the hub may ask to wait before another try, in milliseconds. A call
// that would have to wait longer fails at once.
const longest = 30_000;

/**
 * retry tries a call again if the hub could not be reached or says when to call again. Calls
 * that change nothing are repeated as they are. Those that do get an idempotency key, with
 * which the hub makes them once. Streams, and calls that need no token, are never repeated.
 */
export function retry(limit: number): Interceptor {
  return (next) => async (request) => {
    const name = `${request.service.typeName.slice("deckhand.v1.".length)}/${request.method.name}`;
    const withKey = keyed.has(name);
    if (request.stream || limit <= 0 || !(withKey || repeatable.has(name))) return next(request);
    if (withKey && !request.header.has(keyHeader)) request.header.set(keyHeader, newIdempotencyKey());
    const backoff = new Backoff();
    for (let n = 0; ; n++) {
      try {
        return await next(request);
      } catch (error) {
        const e = DeckhandError.from(error);
        const wait = Math.max(backoff.next(), e.retryAfterMs ?? 0);
        if (n >= limit || request.signal.aborted || wait > longest || !mayHelp(e)) throw error;
        await sleep(wait, request.signal);
        if (request.signal.aborted) throw error;
      }
    }
  };
}

// mayHelp reports whether the same call may succeed a little later. An error that is
// unavailable and has a code is about something else than the hub, such as a node, which is
// not back in a moment.
function mayHelp(e: DeckhandError): boolean {
  return (e.rpcCode === "unavailable" && e.code === undefined) || e.retryAfterMs !== undefined || e.code === ErrorCode.IdempotencyInProgress;
}
