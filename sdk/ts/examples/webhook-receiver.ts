import { createServer } from "node:http";
import { verifyWebhook, WebhookError } from "@deckhand/sdk";

// The secret is shown once, when the destination is created:
// deckhand destination create hooks --webhook https://hooks.example.com/deckhand
const secret = process.env.DECKHAND_WEBHOOK_SECRET!;

const server = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  try {
    const event = await verifyWebhook({ secret, headers: request.headers, body: Buffer.concat(parts) });
    // Respond at once, and work afterwards. The hub may send an event twice.
    response.writeHead(204).end();
    console.log(event.type);
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error;
    response.writeHead(400).end(error.message);
  }
});
server.listen(Number(process.env.PORT ?? 8080), () => console.log("listening"));
