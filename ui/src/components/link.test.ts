import { describe, expect, it } from "vitest";
import { safeLink } from "./link";

describe("safeLink", () => {
  it.each(["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "//", "x"])("refuses %s", (url) => {
    expect(safeLink(url)).toBeUndefined();
  });
  it("follows https", () => expect(safeLink("https://example.com/a")).toBe("https://example.com/a"));
});
