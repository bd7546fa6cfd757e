import { describe, expect, it } from "vitest";
import { TaskState } from "@/gen/deckhand/v1/task_pb";
import { midnight, parseTaskSearch, stateNames } from "./search";

describe("parseTaskSearch", () => {
  it("keeps what it knows, and leaves out the rest", () => {
    expect(
      parseTaskSearch({ q: 42, state: ["running", "gone", "running", "constructor"], agent: "", from: "2026-11-22", to: "2026-99-99", x: 1 }),
    ).toEqual({ q: "42", state: ["running"], agent: undefined, parent: undefined, from: "2026-11-22", to: undefined });
  });
  it("reads one state without a list", () => {
    expect(parseTaskSearch({ state: "failed" }).state).toEqual(["failed"]);
    expect(stateNames.awaiting_approval).toBe(TaskState.AWAITING_APPROVAL);
  });
  it("knows where a day ends, also the last of a month", () => {
    expect(midnight("2026-11-30", 1)).toEqual(new Date(2026, 11, 1));
  });
});
