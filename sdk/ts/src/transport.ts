import type { DescMessage } from "@bufbuild/protobuf";
import type { Interceptor, StreamResponse, Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { DeckhandError } from "./error.js";
import { version } from "./gen/version.js";
import { retry } from "./retry.js";

export type Options = {
  /**
   * Where the hub is, for example "https://hub.example.com" or
   * "https://example.com/deckhand".
   */
  url: string | URL;
  /**
   * An API token. Leave it out in a page of the hub itself, whose browser sends the session's
   * cookie.
   */
  token?: string;
  /**
   * The value of a session's cookie, for programs in Node that act for a person who has
   * logged in. Browsers do not let scripts set cookies.
   */
  session?: string;
  /** How often a call is tried again that can be repeated safely; 3 by default, 0 for never. */
  retries?: number;
  /** Used for all requests instead of the global fetch, for example to add a proxy. */
  fetch?: typeof globalThis.fetch;
  /** See every call before it is sent, and before it is tried again. */
  interceptors?: Interceptor[];
};

/**
 * createTransport returns what calls are sent with: createClient of Connect takes it too.
 * Errors are DeckhandErrors, and an aborted call is rejected with its signal's reason.
 */
export function createTransport(options: Options): Transport {
  const base = baseOf(options.url);
  if (options.token && !/^[!-~]+$/.test(options.token)) {
    throw new TypeError("The token has spaces, line breaks or other characters that no token has: copy it again.");
  }
  const inner = createConnectTransport({
    baseUrl: base.href.replace(/\/$/, ""),
    useBinaryFormat: true,
    fetch: options.fetch,
    interceptors: [...(options.interceptors ?? []), retry(options.retries ?? 3), identify(options, base)],
  });
  return {
    async unary(method, signal, ...rest) {
      try {
        return await inner.unary(method, signal, ...rest);
      } catch (error) {
        throw ended(error, signal);
      }
    },
    async stream(method, signal, ...rest) {
      try {
        const response = await inner.stream(method, signal, ...rest);
        return { ...response, message: translated(response.message, signal) } as StreamResponse<DescMessage, DescMessage> as never;
      } catch (error) {
        throw ended(error, signal);
      }
    },
  };
}

function baseOf(url: string | URL): URL {
  let base: URL | undefined;
  try {
    base = new URL(url);
  } catch {
    // Reported below.
  }
  if (!base || (base.protocol !== "https:" && base.protocol !== "http:")) {
    throw new TypeError("The hub's URL is not one that begins with https:// or http:// and names a host.");
  }
  if (base.username || base.password || base.search || base.hash) {
    throw new TypeError(`The hub's URL for ${base.host} has a user, query or fragment: leave them out.`);
  }
  return base;
}

// ended returns what a failed call is rejected with.
function ended(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted ? signal.reason : DeckhandError.from(error);
}

async function* translated<T>(messages: AsyncIterable<T>, signal: AbortSignal | undefined): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw ended(error, signal);
  }
}

// identify adds who is calling.
function identify(options: Options, base: URL): Interceptor {
  const browser = "document" in globalThis || "WorkerGlobalScope" in globalThis;
  return (next) => (request) => {
    if (options.token) request.header.set("Authorization", `Bearer ${options.token}`);
    else if (options.session) {
      request.header.set("Cookie", `deckhand_session=${options.session}`);
      // The hub takes a cookie only from its own pages.
      request.header.set("Origin", base.origin);
    }
    if (!browser) request.header.set("User-Agent", `deckhand-sdk-ts/${version}`);
    return next(request);
  };
}
