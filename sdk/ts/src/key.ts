/**
 * newIdempotencyKey returns a new idempotency key: the hub takes a call that is sent again
 * with the same key once. crypto.randomUUID would not do: without TLS browsers do not have
 * it.
 */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}
