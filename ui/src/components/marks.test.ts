import { readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { Random, text } from "@/test/random";
import { nameOf } from "./characters";
import { block, json, line, note, pieces, whole } from "./marks";
import { partsOf } from "./parts";

vi.setConfig({ testTimeout: 300_000 }); // machines that are busy are slow

type Spelling = { name: string; text: string; shown: string };
const spellings = JSON.parse(readFileSync("../internal/literal/testdata/marks.json", "utf8")) as Spelling[];

describe("literal text", () => {
  it.each(spellings.map((s) => [s.name, s] as const))("marks %s as the command line does", (_, s) => {
    expect(block(s.text)).toBe(s.shown);
    expect(whole(pieces(s.text))).toBe(s.text);
    expect(note(pieces(s.text)) !== "").toBe(s.shown !== s.text);
  });

  it("marks line feeds and tabs where there is one line", () => {
    expect(line("# note\nrm\t-rf x")).toBe("# note⟦␊⟧rm⟦␉⟧-rf x");
  });

  it("is what is there, whatever is there", () => {
    const random = new Random(20261123);
    for (let n = 0; n < 5_000; n++) {
      const s = text(random);
      expect(whole(pieces(s))).toBe(s);
      expect(whole(pieces(s, true))).toBe(s);
      expect(JSON.parse(json({ [s]: s }))).toEqual({ [s]: s });
      const { parts } = partsOf(s);
      expect(whole(parts.flatMap((p) => p.lines).flatMap((l) => l.pieces))).toBe(s);
      // What is shown as it is has nothing that is obeyed.
      for (const p of pieces(s, true)) if (typeof p === "string") expect(p).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u);
    }
  });

  it("names what it marks", () => {
    expect(nameOf("\u001b")).toBe("ESC");
    expect(nameOf("\r")).toBe("CR");
    expect(nameOf("\u202e")).toBe("U+202E RIGHT-TO-LEFT OVERRIDE");
    expect(nameOf("\u{e0041}")).toBe("U+E0041 TAG A");
    expect(nameOf("\u009b")).toBe("U+009B CSI");
    expect(nameOf("а")).toBe("U+0430 CYRILLIC");
    expect(nameOf("ｒ")).toBe("U+FF52 LIKE r");
    expect(nameOf("\ufe0f")).toBe("U+FE0F VARIATION SELECTOR");
    expect(nameOf("\ud800")).toBe("U+D800 LONE SURROGATE");
    for (const s of spellings) for (const p of pieces(s.text, true)) if (typeof p === "object") expect(p.name).toMatch(/^[A-Z0-9+]{2,}/);
  });

  it("counts what it marks", () => {
    expect(note(pieces("\u001b\r\u001b"))).toBe(
      "This text contains 3 characters that are invisible, or look like others. They are shown as ESC, CR.",
    );
    expect(note(pieces("\0".repeat(1_000_000)))).toContain("1000000 characters");
    expect(pieces("\0".repeat(1_000_000))).toHaveLength(1);
  });
});

describe("parts", () => {
  it("are the whole of a long text, with a bound on what each draws", () => {
    for (const s of ["x\n".repeat(200_000), "x".repeat(1_000_000), "\u001ba".repeat(50_000), "ab\u{1f600}".repeat(200_000), `${"y".repeat(131_071)}\u{1f600}\n`]) {
      const { parts } = partsOf(s);
      expect(whole(parts.flatMap((p) => p.lines).flatMap((l) => l.pieces)) === s).toBe(true);
      for (const p of parts) {
        expect(p.lines.reduce((n, l) => n + l.pieces.length, 0)).toBeLessThanOrEqual(6_000);
        expect(p.lines.every((l) => l.pieces.every((one) => typeof one !== "string" || !/\p{Cs}/u.test(one)))).toBe(true);
      }
    }
  });

  it("number the lines, also of one that goes on in the next part", () => {
    const { parts, lines } = partsOf(`first\n${"x".repeat(300_000)}\nlast`);
    expect(lines).toBe(3);
    expect(parts.map((p) => p.lines.map((l) => [l.number, l.continued]))).toEqual([
      [[1, false]],
      [[2, false]],
      [[2, true]],
      [[2, true], [3, false]],
    ]);
    expect(partsOf("a\n").lines).toBe(1);
    expect(partsOf("").lines).toBe(0);
  });
});
