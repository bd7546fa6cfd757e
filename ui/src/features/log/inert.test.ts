import { describe, expect, it } from "vitest";
import { argumentsOf, type Act } from "@/components/marks";
import { inert, printed } from "./inert";

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
    expect(inert(printed(from))).toBe(to);
  });

  it("takes no long time for a long line", () => {
    const long = "\u001b]0;" + "x".repeat(1_000_000);
    const begin = performance.now();
    expect(inert(printed(long.repeat(2)))).toBe("");
    expect(performance.now() - begin).toBeLessThan(5_000);
  });
});

// The types are checked by tsc: an error that is expected and does not come is one.
describe("the type of output", () => {
  it("is of no argument of a call, and of no other text", () => {
    const argument = argumentsOf({ command: "rm" }).command as Act;
    // @ts-expect-error text of a call is not output
    inert(argument);
    // @ts-expect-error and cannot be declared as such
    inert(printed(argument));
    // @ts-expect-error no text is output until it is declared as such
    inert("a preview" as string);
    expect(inert(printed("out\u001b[0m" as string))).toBe("out");
  });
});
