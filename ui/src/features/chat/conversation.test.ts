import { create } from "@bufbuild/protobuf";
import { beforeEach, expect, test, vi } from "vitest";
import { TaskSchema } from "@/gen/deckhand/v1/task_pb";
import { asContext, conversationsOf, linesOf } from "./conversation";

const chat = (id: string, lineageId: string, goal: string, summary = "", said: string[] = []) =>
  create(TaskSchema, {
    id,
    lineageId,
    goal,
    summary,
    chat: true,
    conversation: said.map((text, i) => ({ role: i % 2 === 0 ? "user" : "assistant", text })),
  });

test("L4: a conversation is its newest chat, by what was asked first", () => {
  const newest = chat("c", "a", "And now?", "Now.", ["Who?", "Me."]);
  const found = conversationsOf([newest, chat("b", "b", "Other"), chat("a", "a", "Who?", "Me.")]);
  expect(found.map((c) => [c.id, c.newest.id, c.title])).toEqual([
    ["a", "c", "Who?"],
    ["b", "b", "Other"],
  ]);
  expect(linesOf(newest).map((l) => l.text)).toEqual(["Who?", "Me.", "And now?", "Now."]);
  expect(linesOf(chat("d", "d", "Well?"))).toEqual([{ role: "user", text: "Well?" }]);
});

test("what becomes of a task is within what the hub takes", () => {
  const lines = Array.from({ length: 120 }, (_, i) => ({ role: "user", text: i === 119 ? "😀".repeat(40_000) : String(i) }));
  const sent = asContext(lines);
  expect(sent).toHaveLength(100);
  expect(sent[0]!.text).toBe("20");
  expect([...sent[99]!.text]).toHaveLength(32_768);
});

beforeEach(() => {
  localStorage.clear();
  vi.resetModules();
});

test("L4: the mode persists, and what acts is never the default", async () => {
  const { renderHook } = await import("@testing-library/react");
  let m = await import("./mode");
  expect(renderHook(() => m.useMode()).result.current).toBe("chat");
  m.setMode("agent");
  expect(localStorage.getItem("deckhand.mode")).toBe("agent");
  vi.resetModules();
  m = await import("./mode");
  expect(renderHook(() => m.useMode()).result.current).toBe("agent");
  localStorage.setItem("deckhand.mode", "something");
  vi.resetModules();
  m = await import("./mode");
  expect(renderHook(() => m.useMode()).result.current).toBe("chat");
});
