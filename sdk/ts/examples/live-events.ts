import { Client } from "@deckhand/sdk";

const client = new Client({ url: process.env.DECKHAND_URL!, token: process.env.DECKHAND_TOKEN });
const { task } = await client.tasks.submitTask({
  agentId: "line-counter",
  inputs: [{ path: "input/report.txt", content: new TextEncoder().encode("one\n") }],
});
const types = ["execution_started", "tool_completed", "execution_completed"];
for await (const { item, cursor } of client.watch({ taskIds: [task!.id], types, follow: true })) {
  if (item.case !== "event") continue;
  // cursor is where another watch continues after this event.
  console.log(item.value.type, item.value.payload?.tool ?? "");
}
