// Submits, watches and answers a task with the client that openapi-ts has generated in api.
import { client } from "./api/client.gen.js";
import { answerInboxItem, getInboxItem, getTask, streamEvents, submitTask } from "./api/sdk.gen.js";

client.setConfig({
  baseUrl: process.env.DECKHAND_URL,
  auth: (scheme) => (scheme.scheme === "bearer" ? process.env.DECKHAND_TOKEN : undefined),
});
const throwOnError = true;
const { data: submitted } = await submitTask({
  body: { agentId: "first-agent", goal: "Greet the reader." },
  headers: { "Idempotency-Key": "generated-typescript" },
  throwOnError,
});
const taskId = submitted.task!.id!;
const { stream } = await streamEvents({ query: { task: taskId, kinds: "approval_requested" } });
for await (const data of stream) {
  const event = data as unknown as { type?: string; payload?: { item_id?: string } };
  if (event.type !== "approval_requested") continue;
  const { data: read } = await getInboxItem({ path: { itemId: event.payload!.item_id! }, throwOnError });
  const item = read.item!;
  console.log(item.tool, item.arguments?.command);
  await answerInboxItem({ path: { itemId: item.id! }, body: { shownDigest: item.shownDigest, approve: {} }, throwOnError });
  break;
}
for (;;) {
  const { data: read } = await getTask({ path: { taskId }, throwOnError });
  if (/_(SUCCEEDED|FAILED|ESCALATED|CANCELLED|TIMED_OUT)$/.test(read.task!.state!)) {
    console.log(read.task!.state);
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
}
const { error, response } = await getTask({ path: { taskId: "task_none" } });
console.log(response?.status, error?.detail);
