import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { AgentSchema, AgentStatus, AgentSummarySchema, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { InboxItemSchema } from "@/gen/deckhand/v1/inbox_pb";
import { TaskState } from "@/gen/deckhand/v1/task_pb";
import { compareBy, needOf } from "./need";
import { deleteView, parseFleetSearch, readViews, saveView } from "./search";

const time = (s: number) => ({ seconds: BigInt(s), nanos: 0 });
const agent = (name: string, more: Partial<Agent> = {}) => create(AgentSchema, { id: name, name, status: AgentStatus.IDLE, provider: "script", ...more } as never);

describe("the order of the fleet", () => {
  it("has those first that wait for a person, the longest first, and says for what", () => {
    const connected = new Set(["anthropic"]);
    const item = (id: string, at: number) => create(InboxItemSchema, { id, askedAt: time(at) });
    const agents = ["idle", "busy", "late", "early", "unconnected", "suspended", "paused"].map((name) => agent(name));
    const needs = new Map([
      ["idle", needOf(agent("idle"), undefined, [], connected)],
      ["busy", needOf(agent("busy", { status: AgentStatus.ACTIVE }), { state: TaskState.RUNNING }, [], connected)],
      ["late", needOf(agent("late"), { state: TaskState.NEEDS_INPUT }, [item("inbox_2", 50)], connected)],
      ["early", needOf(agent("early"), { state: TaskState.AWAITING_APPROVAL }, [item("inbox_1", 10), item("inbox_3", 20)], connected)],
      ["unconnected", needOf(agent("unconnected", { provider: "gemini" }), undefined, [], connected)],
      ["suspended", needOf(agent("suspended", { status: AgentStatus.ERROR_SUSPENDED }), undefined, [], connected)],
      ["paused", needOf(agent("paused"), { state: TaskState.PAUSED }, [], connected)],
    ]);
    expect(agents.sort(compareBy("need", needs, new Map())).map((a) => a.name)).toEqual(["early", "late", "suspended", "paused", "unconnected", "busy", "idle"]);
    expect(needs.get("early")).toMatchObject({ itemId: "inbox_1", since: 10_000, words: "Waits for an approval and 1 more" });
    expect(needs.get("unconnected")!.unconnected).toBe(true);
    expect(needOf(agent("x", { provider: "gemini" }), undefined, [], undefined).unconnected, "while nobody knows").toBeFalsy();
  });

  it("is by cost of today and by the last run, too", () => {
    const summary = (id: string, cost: bigint, at: number): [string, ReturnType<typeof make>] => [id, make(id, cost, at)];
    const make = (agentId: string, cost: bigint, at: number) => create(AgentSummarySchema, { agentId, dayCostMicros: [9n, cost], lastFinishedAt: time(at) });
    const all = new Map([summary("a", 1n, 30), summary("b", 5n, 10), summary("c", 5n, 20)]);
    const names = (sort: "cost" | "last") => ["a", "b", "c", "d"].map((n) => agent(n)).sort(compareBy(sort, new Map(), all)).map((a) => a.name).join("");
    expect(names("cost")).toBe("bcad");
    expect(names("last")).toBe("acbd");
  });
});

describe("saved views", () => {
  it("are kept by name, and nothing odd comes out of the browser's store", () => {
    localStorage.clear();
    saveView({ name: "mine", search: { q: "x" } });
    saveView({ name: "mine", search: { q: "y", view: "table" } });
    expect(readViews()).toEqual([{ name: "mine", search: parseFleetSearch({ q: "y", view: "table" }) }]);
    expect(deleteView("mine")).toEqual([]);
    for (const odd of ["{", "7", '[{"name":3}]', '[null]', '[{"name":"a","search":null}]']) {
      localStorage.setItem("deckhand.fleet.views", odd);
      expect(readViews()).toEqual([]);
    }
  });
});
