import { describe, expect, it } from "vitest";
import { reverse } from "./reverse";

describe("a diff undone", () => {
  it("gives the text before it", () => {
    const now = "one\n2\nthree\nfour\nnew\n";
    const unified = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -4 +4,2 @@\n four\n+new\n";
    expect(reverse(unified, now)).toBe("one\ntwo\nthree\nfour\n");
  });
  it("restores lines that are gone, and what was before a new file", () => {
    expect(reverse("--- a\n+++ b\n@@ -2,2 +1,0 @@\n-b\n-c\n", "a\nd\n")).toBe("a\nb\nc\nd\n");
    expect(reverse("--- /dev/null\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n")).toBe("");
    expect(reverse("@@ -1 +1 @@\n--- x\n+y\n", "y\n")).toBe("-- x\n");
  });
  it("is not made of a text that has changed since", () => {
    expect(reverse("@@ -1 +1 @@\n-a\n+b\n", "c\n")).toBeUndefined();
    expect(reverse("@@ -9 +9 @@\n-a\n+b\n", "b\n")).toBeUndefined();
    expect(reverse("", "b\n")).toBeUndefined();
  });
});
