import { describe, expect, it } from "vitest";
import { Lines } from "./lines";

const encode = (s: string) => new TextEncoder().encode(s);
const all = (l: Lines) => Array.from({ length: l.size }, (_, i) => l.row(i));

describe("Lines", () => {
  it("joins what comes in pieces, also within a character and an escape", () => {
    const data = encode("Größe\n\u001b[31mred\u001b[0m\nrest");
    for (let cut = 0; cut <= data.length; cut++) {
      const l = new Lines();
      l.add(data.slice(0, cut));
      l.add(data.slice(cut));
      expect(all(l)).toEqual(["Größe", "red", "rest"]);
    }
  });

  it("draws a line of a megabyte in rows, under one number", () => {
    const l = new Lines();
    l.add(encode("first\n"));
    const long = encode("x".repeat(1_000_000));
    for (let at = 0; at < long.length; at += 32_768) l.add(long.slice(at, at + 32_768));
    l.add(encode("\nlast\n"));
    expect(all(l).join("")).toHaveLength("first".length + 1_000_000 + "last".length);
    expect(Math.max(...all(l).map((r) => r.length))).toBeLessThanOrEqual(Lines.longest);
    expect(l.number(0)).toBe(1);
    expect(l.number(1)).toBe(2);
    expect(l.number(2)).toBe(0);
    expect(l.number(l.size - 1)).toBe(3);
  });

  it("finds rows", () => {
    const l = new Lines();
    l.add(encode("one\nTwo two\nthree"));
    expect(l.find("TWO")).toEqual([1]);
    expect(l.find("three")).toEqual([2]);
    expect(l.find("")).toEqual([]);
  });
});
