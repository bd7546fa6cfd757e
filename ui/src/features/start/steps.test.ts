import { expect, test } from "vitest";
import { TaskState } from "@/gen/deckhand/v1/task_pb";
import { stepsOf } from "./steps";

const nothing = { provider: undefined, scripted: false, agents: [], tasks: [] };
const agent = { name: "first-look", provider: "script" };

test("the steps lead from a model to a result, one after another", () => {
  expect(stepsOf(nothing).next).toBe("connect");
  expect(stepsOf({ ...nothing, scripted: true }).next).toBe("take");
  expect(stepsOf({ ...nothing, provider: "anthropic" }).next).toBe("take");
  expect(stepsOf({ ...nothing, agents: [agent] }).next).toBe("run");
  expect(stepsOf({ ...nothing, agents: [agent], tasks: [TaskState.RUNNING] }).next).toBe("look");
});

test("they are over when a task has ended, however", () => {
  for (const state of [TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED]) {
    expect(stepsOf({ ...nothing, agents: [agent], tasks: [TaskState.RUNNING, state] })).toMatchObject({ over: true, next: undefined });
  }
});

test("the agent to run is one that can run with what is connected", () => {
  const gpt = { name: "gpt", provider: "openai" };
  expect(stepsOf({ ...nothing, agents: [gpt, agent] }).steps.run.about).toBe("first-look");
  expect(stepsOf({ ...nothing, provider: "openai", agents: [gpt, agent] }).steps.run.about).toBe("gpt");
});
