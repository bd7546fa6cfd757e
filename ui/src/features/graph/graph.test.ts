import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { AgentEdgeSchema, TriggerEdgeSchema, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { TaskSchema } from "@/gen/deckhand/v1/task_pb";
import { family, type Branch } from "./Family";
import { edgesOf, layout, nodeHeight, nodeWidth, said, widthOf } from "./graph";

const agents = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `agent-${i}`, model: "m", status: 1 }) as Pick<Agent, "name" | "model" | "status">);

describe("the graph", () => {
  it("has the figures of the RPC on its edges, of agents and of triggers", () => {
    const edge = create(AgentEdgeSchema, { from: "a", to: "b", kind: "delegate", permitted: true, tasks: 3n, live: 2n, waiting: 1n, tokens: 900n, recentTokens: 70n, costMicros: 5n });
    const trigger = create(TriggerEdgeSchema, { triggerId: "trig_1", triggerName: "nightly", kind: "cron", agent: "a", state: "enabled", tasks: 4n, live: 1n, tokens: 30n, recentTokens: 8n, costMicros: 2n });
    expect(edgesOf([edge], [trigger], false)).toEqual([
      { id: "a delegate b", from: "agent a", to: "agent b", kind: "delegate", permitted: true, tasks: 3, live: 2, waiting: 1, tokens: 900, recentTokens: 70, costMicros: 5 },
      { id: "trigger trig_1", from: "trigger nightly", to: "agent a", kind: "trigger", permitted: true, tasks: 4, live: 1, waiting: 0, tokens: 30, recentTokens: 8, costMicros: 2 },
    ]);
    expect(edgesOf([edge], [trigger], false).map(said)).toEqual([
      "delegate from a to b: 3 tasks, 2 live, a waits for b, 70 tokens in the last 5 minutes",
      "trigger from nightly to a: 4 tasks, 1 live, 8 tokens in the last 5 minutes",
    ]);
    expect(edgesOf([create(AgentEdgeSchema, { ...edge, tasks: 0n })], [], true)).toEqual([]);
    expect(widthOf(0)).toBeLessThan(widthOf(100));
    expect(widthOf(100)).toBeLessThan(widthOf(100_000));
  });

  it("keeps 100 agents apart, with edges from left to right", () => {
    const chain = Array.from({ length: 60 }, (_, i) => create(AgentEdgeSchema, { from: `agent-${Math.floor(i / 3)}`, to: `agent-${i + 1}`, kind: "delegate", tasks: 1n }));
    const self = create(AgentEdgeSchema, { from: "agent-0", to: "agent-0", kind: "subtask", tasks: 1n });
    const edges = edgesOf([...chain, self], [], false);
    const nodes = layout(agents(100), [], edges);
    expect(nodes).toHaveLength(100);
    for (const a of nodes) {
      for (const b of nodes) {
        if (a === b) continue;
        expect(Math.abs(a.x - b.x) >= nodeWidth || Math.abs(a.y - b.y) >= nodeHeight, `${a.id} and ${b.id} overlap`).toBe(true);
      }
    }
    const at = new Map(nodes.map((n) => [n.id, n]));
    for (const e of edges) if (e.from !== e.to) expect(at.get(e.from)!.x).toBeLessThan(at.get(e.to)!.x);
  });
});

describe("the family of a task", () => {
  const task = (id: string, more: object = {}, at = 0) => create(TaskSchema, { id, createdAt: { seconds: BigInt(at), nanos: 0 }, ...more });
  const words = (b: Branch[]): string => b.map((x) => `${x.task.id}${x.how && `(${x.how})`}${x.below.length ? `[${words(x.below)}]` : ""}`).join(" ");

  it("is a tree of subtasks, handoffs, retries and resumed runs", () => {
    const tasks = [
      task("resumed", { originId: "root", resumedAt: 4, lineageId: "root" }, 5),
      task("handed", { handedFrom: "child", parentId: "root" }, 3),
      task("child", { parentId: "root" }, 2),
      task("retry", { originId: "root" }, 4),
      task("root", {}, 1),
      task("orphan", { parentId: "unseen" }, 6),
    ];
    expect(words(family(tasks))).toBe("root[child(subtask)[handed(handoff)] retry(retry) resumed(continues from iteration 4)] orphan(subtask)");
  });
});
