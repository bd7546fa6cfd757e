import { Client, DeckhandError, ErrorCode, isError } from "@deckhand/sdk";

const client = new Client({ url: process.env.DECKHAND_URL!, token: process.env.DECKHAND_TOKEN });

// All agents. Pages are read as they are needed.
const names: string[] = [];
for await (const agent of client.agents.listAgents({ pageSize: 1 })) names.push(agent.name);
console.log(names.sort().join(", "));

// Only the first page.
const { agents, nextPageToken } = await client.agents.listAgents({ pageSize: 1 });
console.log(agents.length, nextPageToken !== "");

try {
  await client.agents.applyAgent({ filename: "broken.md", markdown: "---\nname: broken\n---\n" });
} catch (error) {
  if (isError(error, ErrorCode.TaskParsing)) console.log("the persona is not valid");
  else throw error;
}

try {
  await client.tasks.getTask({ taskId: "task_none" });
} catch (error) {
  if (!(error instanceof DeckhandError)) throw error;
  console.log(error.rpcCode, error.message);
}

// A key of your own outlives the program: a second run finds the first one's task.
const headers = { "Idempotency-Key": "report-of-2026-11-28" };
const request = { agentId: "line-counter", inputs: [{ path: "input/report.txt", content: new Uint8Array([10]) }] };
const first = await client.tasks.submitTask(request, { headers });
const second = await client.tasks.submitTask(request, { headers });
console.log(first.task!.id === second.task!.id);
