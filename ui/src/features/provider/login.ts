import { base } from "@/api/base";

// A login with a provider by OAuth 2.0 with PKCE. The provider sends its code to
// callbackPage, in a window of its own, which passes it on to the page that began
// the login. Nothing of it is stored: the verifier and the client's secret stay in
// the memory of that page, and the hub exchanges the code.

// redirectURL is the address that the OAuth client must allow.
export const redirectURL = () => new URL("providers/callback", base).href;

const channelName = "deckhand-provider-login";

// Came is what the provider sent back.
export type Came = { state: string; code: string; error: string };

const random = () => encode(crypto.getRandomValues(new Uint8Array(32)));

function encode(bytes: Uint8Array) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Attempt is one login that has begun.
export type Attempt = { state: string; verifier: string; challenge: string };

// begin makes the secrets of a login. It needs HTTPS, or a hub on this computer.
export async function begin(): Promise<Attempt> {
  if (!globalThis.isSecureContext) throw new Error("A login needs HTTPS. Open the console over HTTPS, or on the hub's own computer.");
  const verifier = random();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  return { state: random(), verifier, challenge: encode(new Uint8Array(digest)) };
}

// address is the provider's page on which a person allows the hub to use their account.
export function address(authURL: string, clientId: string, scopes: readonly string[], attempt: Attempt) {
  const url = new URL(authURL);
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectURL(),
    scope: scopes.join(" "),
    state: attempt.state,
    code_challenge: attempt.challenge,
    code_challenge_method: "S256",
    access_type: "offline",
    prompt: "consent",
  })) {
    url.searchParams.set(name, value);
  }
  return url.href;
}

// pass hands what came over to the page that began the login.
export function pass(search: string) {
  const q = new URLSearchParams(search);
  const channel = new BroadcastChannel(channelName);
  channel.postMessage({ state: q.get("state") ?? "", code: q.get("code") ?? "", error: q.get("error") ?? "" } satisfies Came);
  channel.close();
}

// listen calls back with what comes for an attempt, until it is stopped.
export function listen(attempt: Attempt, came: (c: Came) => void): () => void {
  const channel = new BroadcastChannel(channelName);
  channel.onmessage = (e: MessageEvent<Came>) => {
    if (e.data.state === attempt.state) came(e.data);
  };
  return () => channel.close();
}
