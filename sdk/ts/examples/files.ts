import { Client } from "@deckhand/sdk";

const client = new Client({ url: process.env.DECKHAND_URL!, token: process.env.DECKHAND_TOKEN });
const report = new TextEncoder().encode("a line\n".repeat(10_000));
const { task } = await client.tasks.submitTask({
  agentId: "line-counter",
  inputs: [{ path: "input/report.txt", content: report }],
});
const { id } = await client.waitForTask(task!.id);
const result = await client.downloadFile(id, "result.txt");
console.log(new TextDecoder().decode(result).trim());
