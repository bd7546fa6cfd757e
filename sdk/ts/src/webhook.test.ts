import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { verifyWebhook, WebhookError } from "./webhook.js";

const key = Buffer.from("0123456789abcdef0123456789abcdef");
const secret = `whsec_${key.toString("base64")}`;
const now = new Date("2026-11-22T10:00:00Z");
const body = JSON.stringify({ specversion: "1.0", id: "n_1", type: "agent.failed", data: { summary: "läuft nicht" } });

function headersOf(text: string | Uint8Array, at: Date, more: string[] = []): Record<string, string> {
  const timestamp = String(at.getTime() / 1000);
  const signature = createHmac("sha256", key).update(`msg_1.${timestamp}.`).update(text).digest("base64");
  return { "webhook-id": "msg_1", "Webhook-Timestamp": timestamp, "webhook-signature": [...more, `v1,${signature}`].join(" ") };
}

describe("verifyWebhook", () => {
  it("returns the event of a signed request, with any kind of headers and body", async () => {
    const headers = headersOf(body, now);
    for (const given of [headers, new Headers(headers), Object.fromEntries(Object.entries(headers).map(([k, v]) => [k, [v]]))]) {
      for (const received of [body, new TextEncoder().encode(body), Buffer.from(body)]) {
        const event = await verifyWebhook({ secret, headers: given, body: received, now });
        expect(event.type).toBe("agent.failed");
        expect(event.data.summary).toBe("läuft nicht");
      }
    }
  });

  it("takes any of several signatures, as during a rotation, and no other scheme", async () => {
    await verifyWebhook({ secret, headers: headersOf(body, now, [`v1,${Buffer.alloc(32).toString("base64")}`, "v1a,AAAA"]), body, now });
    const headers = headersOf(body, now);
    headers["webhook-signature"] = headers["webhook-signature"]!.replace("v1,", "v2,");
    await expect(verifyWebhook({ secret, headers, body, now })).rejects.toThrow("No signature");
  });

  it("refuses what was changed, is of another secret, old, early, or incomplete", async () => {
    const headers = headersOf(body, now);
    const refused = async (part: Partial<Parameters<typeof verifyWebhook>[0]>, says: string) => {
      const result = verifyWebhook({ secret, headers, body, now, ...part });
      await expect(result).rejects.toThrow(says);
      await expect(result).rejects.toBeInstanceOf(WebhookError);
    };
    await refused({ body: `${body} ` }, "No signature");
    await refused({ secret: `whsec_${Buffer.alloc(32).toString("base64")}` }, "No signature");
    await refused({ secret: "whsec_?" }, "The secret is not base64");
    await refused({ now: new Date(now.getTime() + 301_000) }, "301 s ago");
    await refused({ now: new Date(now.getTime() - 301_000) }, "301 s in the future");
    await refused({ headers: { ...headers, "Webhook-Timestamp": "1e3" } }, "not a number of seconds");
    await refused({ headers: { ...headers, "webhook-signature": "v1,?" } }, "A signature is not base64");
    await refused({ headers: { ...headers, "webhook-id": undefined } }, "webhook-id is missing");
    await refused({ headers: { ...headers, "webhook-id": ["a", "b"] as never } }, "webhook-id is missing");
    await verifyWebhook({ secret, headers, body, now: new Date(now.getTime() + 600_000), toleranceSeconds: 600 });
  });
});
