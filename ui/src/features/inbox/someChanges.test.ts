import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { argumentsOf } from "@/components/marks";
import { ProposedChangeSchema } from "@/gen/deckhand/v1/inbox_pb";
import { choicesOf } from "./someChanges";

const change = (unified: string) => create(ProposedChangeSchema, { kind: "overwrite", path: "a", before: { type: "file" }, after: { type: "file" }, unified });
const kept = (...n: number[]) => new Set(n);

describe("accepting some of a call's changes", () => {
  it("writes the file as it was with those changes, and no other", () => {
    const before = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";
    const after = "one\nTWO\nthree\nfour\nfive\nsix\nnew\nseven\neight\n";
    const unified = "--- a/a\n+++ b/a\n@@ -1,5 +1,5 @@\n one\n-two\n+TWO\n three\n four\n five\n@@ -6,3 +6,4 @@\n six\n+new\n seven\n eight\n";
    const choices = choicesOf("file_write", argumentsOf({ path: "a", content: after }), [change(unified)])!;
    expect(choices.hunks.map((h) => h.rows.filter((r) => r.sign !== " ").map((r) => r.sign + r.text))).toEqual([["-two", "+TWO"], ["+new"]]);
    expect(choices.keep(kept(0, 1))).toEqual({ path: "a", content: after });
    expect(choices.keep(kept())).toEqual({ path: "a", content: before });
    expect(choices.keep(kept(0))).toEqual({ path: "a", content: before.replace("two", "TWO") });
    expect(choices.keep(kept(1))).toEqual({ path: "a", content: before.replace("six\n", "six\nnew\n") });
  });

  it("keeps carriage returns, hidden characters and the end of the text as they are", () => {
    const args = argumentsOf({ path: "a", old_string: "a\r\nb\nc\u200b\nd", new_string: "A\r\nb\nc\u200b\nd\n" });
    const choices = choicesOf("file_edit", args, [])!;
    expect(choices.hunks).toHaveLength(2);
    expect(choices.keep(kept(0))["new_string"]).toBe("A\r\nb\nc\u200b\nd");
    expect(choices.keep(kept(1))["new_string"]).toBe("a\r\nb\nc\u200b\nd\n");
    expect(choices.keep(kept(0))["old_string"]).toBe("a\r\nb\nc\u200b\nd");
  });

  it("takes parts and whole files out of a patch", () => {
    const input = "*** Begin Patch\n*** Update File: a.go\n@@ func a() {\n-\tx()\n+\ty()\n@@ func b() {\n \tz()\n-\tq()\n*** Add File: b.go\n+package b\n*** Delete File: c.go\n*** End Patch";
    const choices = choicesOf("apply_patch", argumentsOf({ input }), [])!;
    expect(choices.hunks.map((h) => h.label)).toEqual(["Change of a.go", "Change of a.go", "Creates b.go", "Deletes c.go"]);
    expect(choices.keep(kept(0, 1, 2, 3))).toEqual({ input });
    expect(choices.keep(kept(1, 3))).toEqual({ input: "*** Begin Patch\n*** Update File: a.go\n@@ func b() {\n \tz()\n-\tq()\n*** Delete File: c.go\n*** End Patch" });
    expect(choices.keep(kept(2))).toEqual({ input: "*** Begin Patch\n*** Add File: b.go\n+package b\n*** End Patch" });
  });

  it("is not offered where there is one change, a problem, or no text before", () => {
    const args = argumentsOf({ path: "a", old_string: "a", new_string: "b" });
    expect(choicesOf("file_edit", args, [])).toBeUndefined();
    const two = argumentsOf({ path: "a", old_string: "a\nx\nb", new_string: "A\nx\nB" });
    expect(choicesOf("file_edit", two, [create(ProposedChangeSchema, { problem: "not in a" })])).toBeUndefined();
    expect(choicesOf("file_edit", two, [])?.hunks).toHaveLength(2);
    expect(choicesOf("file_write", argumentsOf({ path: "a", content: "x\ny" }), [create(ProposedChangeSchema, { kind: "create", unified: "@@ -0,0 +1,2 @@\n+x\n+y\n" })])).toBeUndefined();
    expect(choicesOf("shell_exec", argumentsOf({ command: "ls" }), [])).toBeUndefined();
  });

  // Whatever is kept: the changes that are left out are still there to be made.
  it("is exact for any texts and any choice", () => {
    const random = (seed: number) => () => ((seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff);
    for (let seed = 1; seed <= 300; seed++) {
      const next = random(seed);
      const lines = () => Array.from({ length: 1 + Math.floor(next() * 12) }, () => "abc"[Math.floor(next() * 3)]! + "\r".repeat(Number(next() < 0.1))).join("\n") + (next() < 0.5 ? "\n" : "");
      const [before, after] = [`${lines()}x`, lines()];
      const choices = choicesOf("file_edit", argumentsOf({ old_string: before, new_string: after }), []);
      if (!choices) continue;
      const all = choices.hunks.map((_, i) => i);
      expect(choices.keep(new Set(all))["new_string"]).toBe(after);
      expect(choices.keep(new Set())["new_string"]).toBe(before);
      const some = all.filter(() => next() < 0.5);
      const mixed = choices.keep(new Set(some))["new_string"] as string;
      // One that is left out is there as it was, one that is kept as it was asked.
      const has = (hunk: number, sign: string) => choices.hunks[hunk]!.rows.filter((r) => r.sign === sign).map((r) => r.text);
      const count = all.flatMap((h) => has(h, some.includes(h) ? "+" : "-")).length;
      const same = before.replace(/\n$/, "").split("\n").length - all.flatMap((h) => has(h, "-")).length;
      expect(mixed === "" ? 0 : mixed.replace(/\n$/, "").split("\n").length).toBe(same + count);
      for (const line of mixed.split("\n")) expect([...before.split("\n"), ...after.split("\n")]).toContain(line);
    }
  });
});
