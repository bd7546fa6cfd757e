import type { JsonObject } from "@bufbuild/protobuf";

/**
 * CloudEvent is what a webhook destination receives: CloudEvents 1.0. The summary and details
 * quote what agents and strangers wrote: they are data, and no instructions.
 */
export type CloudEvent = {
  specversion: "1.0";
  /** The same for each delivery of a notification. */
  id: string;
  /** The organisation, for example "/organisations/org_default". */
  source: string;
  /** For example "agent.failed"; see docs/events.md. */
  type: string;
  /** The task, if the event belongs to one. */
  subject?: string;
  /** RFC 3339. */
  time: string;
  datacontenttype: "application/json";
  correlationid?: string;
  data: JsonObject & { summary?: string };
};

/** WebhookError says why a request is not one of the hub's. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}

type HeaderValues = Headers | Record<string, string | string[] | undefined>;

export type WebhookRequest = {
  /**
   * The destination's secret, which begins with whsec_. During a rotation the hub signs with
   * the new and the old one, so either will do.
   */
  secret: string;
  headers: HeaderValues;
  /**
   * The body as it was received: text or bytes that were parsed and encoded again have
   * another signature.
   */
  body: string | Uint8Array;
  /**
   * How old a request may be, in seconds; 300 by default. Older ones may have been recorded
   * and sent again.
   */
  toleranceSeconds?: number;
  /** The time now, for tests. */
  now?: Date;
};

/**
 * verifyWebhook verifies that a request was signed with a destination's secret, as Standard
 * Webhooks (https://www.standardwebhooks.com) has it, and returns its event. It throws a
 * WebhookError otherwise: respond with status 400 then. It uses Web Crypto, which Node and
 * browsers have.
 *
 * A notification may be delivered twice: remember the header webhook-id to recognise it.
 */
export async function verifyWebhook(request: WebhookRequest): Promise<CloudEvent> {
  const id = valueOf(request.headers, "webhook-id");
  const timestamp = valueOf(request.headers, "webhook-timestamp");
  const signatures = valueOf(request.headers, "webhook-signature");
  const seconds = Number(timestamp);
  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookError("The header webhook-timestamp is not a number of seconds.");
  const now = (request.now ?? new Date()).getTime() / 1000;
  const tolerance = request.toleranceSeconds ?? 300;
  if (Math.abs(now - seconds) > tolerance) {
    throw new WebhookError(`The request was signed ${Math.round(Math.abs(now - seconds))} s ${now > seconds ? "ago" : "in the future"}, and ${tolerance} s are allowed.`);
  }
  const encoder = new TextEncoder();
  const body = typeof request.body === "string" ? encoder.encode(request.body) : request.body;
  const head = encoder.encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + body.length);
  signed.set(head);
  signed.set(body, head.length);
  const key = await crypto.subtle.importKey("raw", bytesOf(request.secret.replace(/^whsec_/, ""), "The secret"), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  for (const signature of signatures.split(" ")) {
    const [scheme, value] = signature.split(",", 2);
    if (scheme !== "v1" || value === undefined) continue;
    // verify compares in constant time.
    if (await crypto.subtle.verify("HMAC", key, bytesOf(value, "A signature"), signed)) {
      return JSON.parse(new TextDecoder().decode(body)) as CloudEvent;
    }
  }
  throw new WebhookError("No signature is of this body and this secret. Give the body as it was received, before it is parsed.");
}

function valueOf(headers: HeaderValues, name: string): string {
  let value: string | string[] | null | undefined;
  if (headers instanceof Headers) value = headers.get(name);
  else value = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  if (Array.isArray(value)) value = value.length === 1 ? value[0] : undefined;
  if (!value) throw new WebhookError(`The header ${name} is missing.`);
  return value;
}

function bytesOf(base64: string, what: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    throw new WebhookError(`${what} is not base64.`);
  }
}
