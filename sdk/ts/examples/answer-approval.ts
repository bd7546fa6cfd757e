import { Client } from "@deckhand/sdk";
import { TaskState } from "@deckhand/sdk/v1/task";

const client = new Client({ url: process.env.DECKHAND_URL!, token: process.env.DECKHAND_TOKEN });
const { task } = await client.tasks.submitTask({ agentId: "first-agent", goal: "Greet the reader." });
const taskId = task!.id;
for await (const { item } of client.watch({ taskIds: [taskId], types: ["approval_requested"], follow: true })) {
  if (item.case !== "event") continue;
  const itemId = String(item.value.payload?.item_id);
  const { item: asked } = await client.inbox.getInboxItem({ itemId });
  console.log(asked!.tool, asked!.arguments?.command);
  // The hub refuses the approval if the call is no longer what was shown.
  await client.inbox.answerInboxItem({ itemId, shownDigest: asked!.shownDigest, answer: { case: "approve", value: {} } });
}
const ended = await client.waitForTask(taskId);
console.log(TaskState[ended.state]);
