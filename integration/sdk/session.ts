// Logs in, and calls the hub with the session's cookie.
import { Client } from "@deckhand/sdk";

const url = process.env.DECKHAND_URL!;
let session: string | undefined;
await new Client({ url }).sessions.createSession(
  { with: { case: "token", value: process.env.DECKHAND_TOKEN! } },
  { onHeader: (headers) => (session = /deckhand_session=([^;]+)/.exec(headers.get("set-cookie") ?? "")?.[1]) },
);
const client = new Client({ url, session });
const { session: own } = await client.sessions.getSession({});
console.log(own!.role);
// It changes something, which the hub takes from its own pages only.
const { expiresAt } = await client.sessions.createLoginCode({});
console.log(expiresAt !== undefined);
