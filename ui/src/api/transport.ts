import { type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
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

// transport speaks Connect with this hub. The session is a cookie, which the
// browser adds and no script can read.
export const transport = createConnectTransport({
  baseUrl: base.href.replace(/\/$/, ""),
  useBinaryFormat: true,
  interceptors: [noticeLostSession],
});
