import { describe, expect, it } from "vitest";
import { attachmentPath, nameOf, withAttachments } from "./upload";

describe("an uploaded file", () => {
  it("gets a name without folders, spaces, hidden characters and what a shell obeys", () => {
    const names = ["report.pdf", "../../etc/passwd", "C:\\x\\a b.txt", "a\u202e\u0007b;rm -rf $HOME.txt", ".bashrc", "…", "", "x".repeat(200)];
    expect(names.map((name) => nameOf({ name }))).toEqual([
      "report.pdf", "passwd", "a-b.txt", "a-b-rm--rf-HOME.txt", "bashrc", "…", "file", "x".repeat(120),
    ]);
  });

  it("lies in a folder of its own, and the message says where", () => {
    const path = attachmentPath({ name: "a b.txt" }, new Date("2026-11-26T17:05:09Z"));
    expect(path).toBe("attachments/20261126-170509/a-b.txt");
    expect(withAttachments("Look at this", [{ path, size: 2048 }])).toBe(`Look at this\n\nAttached, in the workspace:\n- ${path} (2.0 KiB)`);
    expect(withAttachments("", [{ path, size: 1 }])).toMatch(/^Attached/);
    expect(withAttachments("Hi", [])).toBe("Hi");
  });
});
