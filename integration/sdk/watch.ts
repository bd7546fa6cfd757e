// Prints the number of each stored event of the task in TASK.
import { Client } from "@deckhand/sdk";

const client = new Client({ url: process.env.DECKHAND_URL!, token: process.env.DECKHAND_TOKEN });
let lost = 0;
const watch = client.watch({ taskIds: [process.env.TASK!] }, { onStatus: (s) => s === "lost" && lost++, backoff: { base: 10, max: 50 } });
for await (const { item } of watch) if (item.case === "event") console.log(String(item.value.seq));
if (lost < 3) throw new Error(`the connection broke ${lost} times only`);
