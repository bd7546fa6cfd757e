import { describe, expect, it } from "vitest";
import { inert, safeLink } from "./inert";

describe("inert", () => {
  it.each([
    ["colours", "\u001b[1;31mred\u001b[0m", "red"],
    ["a window title", "a\u001b]0;rm -rf /\u0007b", "ab"],
    ["the clipboard", "a\u001b]52;c;ZXZpbA==\u001b\\b", "ab"],
    ["a link of an odd scheme", "\u001b]8;;javascript:alert(1)\u001b\\click\u001b]8;;\u001b\\", "click"],
    ["a sequence that never ends", "a\u001b]0;title\nnext", "a\nnext"],
    ["8-bit forms", "a\u009b31mb\u009d0;t\u009cc", "abc"],
    ["device control", "a\u001bP1$r q\u001b\\b", "ab"],
    ["moves of the cursor", "good\u001b[2K\u001b[1Aevil", "goodevil"],
    ["a lone escape at the end", "a\u001b", "a"],
    ["a bar that overwrites itself", "10%\r50%\r100%\nnext\r\n", "100%\nnext\n"],
    ["bells and backspaces", "a\u0007b\u0008c", "abc"],
    ["turned direction", "a\u202eb", "a\ufffdb"],
    ["plain text", "tab\tand\nline <b>&amp;</b>", "tab\tand\nline <b>&amp;</b>"],
  ])("takes out %s", (_, from, to) => {
    expect(inert(from)).toBe(to);
  });

  it("takes no long time for a long line", () => {
    const long = "\u001b]0;" + "x".repeat(1_000_000);
    const begin = performance.now();
    expect(inert(long.repeat(2))).toBe("");
    expect(performance.now() - begin).toBeLessThan(5_000);
  });
});

describe("safeLink", () => {
  it.each(["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "//", "x"])("refuses %s", (url) => {
    expect(safeLink(url)).toBeUndefined();
  });
  it("follows https", () => expect(safeLink("https://example.com/a")).toBe("https://example.com/a"));
});
