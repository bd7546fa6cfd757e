import { Client } from "@deckhand/sdk";
import { TaskState } from "@deckhand/sdk/v1/task";

const client = new Client({ url: process.env.DECKHAND_URL!, token: process.env.DECKHAND_TOKEN });
const { task } = await client.tasks.submitTask({
  agentId: "line-counter",
  goal: "Count the lines of the report.",
  inputs: [{ path: "input/report.txt", content: new TextEncoder().encode("one\ntwo\nthree\n") }],
});
const ended = await client.waitForTask(task!.id, { signal: AbortSignal.timeout(300_000) });
console.log(TaskState[ended.state], ended.summary);
