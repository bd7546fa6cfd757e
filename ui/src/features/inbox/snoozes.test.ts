import { describe, expect, it } from "vitest";
import { choicesUntil, localTime, untilBack } from "./snoozes";

const at = (text: string) => new Date(text).getTime();

describe("the times that snoozing offers", () => {
  it("are round ones in local time, and Monday only where it is not tomorrow", () => {
    const times = (now: string) => choicesUntil(at(now), undefined).map((c) => [c.label, localTime(c.at)]);
    expect(times("2026-11-26T17:00")).toEqual([
      ["In 15 minutes", "2026-11-26T17:15"],
      ["In 1 hour", "2026-11-26T18:00"],
      ["In 4 hours", "2026-11-26T21:00"],
      ["Tomorrow", "2026-11-27T09:00"],
      ["Next Monday", "2026-11-30T09:00"],
    ]);
    expect(times("2026-11-29T17:00").map(([label]) => label)).not.toContain("Next Monday"); // a Sunday
    expect(times("2026-11-30T08:00").at(-1)).toEqual(["Next Monday", "2026-12-07T09:00"]);
  });

  it("are before the item expires", () => {
    const now = at("2026-11-26T17:00");
    expect(choicesUntil(now, at("2026-11-26T18:30")).map((c) => c.label)).toEqual(["In 15 minutes", "In 1 hour"]);
    expect(choicesUntil(now, at("2026-11-26T17:05"))).toEqual([]);
  });

  it("have the list asked for again when the first of them has come", () => {
    expect(untilBack(undefined, 1_000, 60_000)).toBe(60_000);
    expect(untilBack(11_000, 1_000, 60_000)).toBe(10_050);
    expect(untilBack(500_000, 1_000, 60_000)).toBe(60_000);
    expect(untilBack(500, 1_000, 60_000)).toBe(250);
  });
});
