import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createRoute } from "@tanstack/react-router";
import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { shellRoute } from "@/app/root";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { InboxItemSchema, InboxState } from "@/gen/deckhand/v1/inbox_pb";
import { showPage } from "@/test/page";
import { after } from "./change";
import { Preview } from "./Preview";

describe("what a call makes of a file", () => {
  it("is what it writes, what it adds, and what it replaces", () => {
    expect(after("file_write", { content: "new" }, "old")).toBe("new");
    expect(after("file_append", { content: "b" }, "a")).toBe("ab");
    expect(after("file_edit", { edits: [{ old: "$1", new: "$&" }] }, "a $1 b")).toBe("a $& b");
    expect(after("file_edit", { edits: [{ old: "a", new: "b", all: true }] }, "aa")).toBe("bb");
  });
  it("is not made up where an edit has no one place", () => {
    expect(after("file_edit", { edits: [{ old: "x", new: "y" }] }, "a")).toBeUndefined();
    expect(after("file_edit", { edits: [{ old: "a", new: "y" }] }, "aa")).toBeUndefined();
    expect(after("shell_exec", {}, "")).toBeUndefined();
  });
});

// E3: the preview of an approval is a diff, a command or a request, as text.
describe("the preview of an approval", () => {
  const show = (tool: string, args: Record<string, string>, file?: string) => {
    const item = create(InboxItemSchema, { tool, taskId: "task_1", state: InboxState.OPEN, arguments: args, preview: "as the hub says it" });
    const page = createRoute({ path: "/preview", getParentRoute: () => shellRoute, component: () => <Preview item={item} /> });
    return showPage("/preview", [page], (r) =>
      r.service(FileService, {
        readFile: () => {
          if (file === undefined) throw new ConnectError("there is no such file", Code.NotFound);
          const content = new TextEncoder().encode(file);
          return { content, size: BigInt(content.length) };
        },
      }),
    );
  };

  it("compares a file with what would become of it", async () => {
    const { container } = show("file_write", { path: "a.txt", content: "one\n<b>two</b>\n" }, "one\nthree\n");
    const merge = await screen.findByTestId("merge");
    await waitFor(() => expect(merge.textContent).toContain("<b>two</b>"));
    expect(merge.textContent).toContain("three");
    expect(container.querySelector("b")).toBeNull();
    expect(screen.getByText("a.txt").parentElement?.textContent).toBe("Changes a.txt");
  });

  it("says that a file is new", async () => {
    show("file_append", { path: "new.txt", content: "first" });
    expect((await screen.findByText("new.txt")).parentElement?.textContent).toBe("Makes new.txt");
  });

  it("falls back to the hub's words for what it cannot compare", async () => {
    show("file_write", { path: "bin", content: "x" }, "\u0000");
    expect(await screen.findByText("as the hub says it")).toBeTruthy();
  });

  it("shows a command with its folder, and a request with its parts", async () => {
    const first = show("shell_exec", { command: "rm -rf build", cwd: "src" });
    expect((await screen.findByLabelText("Command")).textContent).toBe("rm -rf build");
    first.unmount();
    show("http_post", { url: "https://api.example.com/x", body: "<script>" });
    expect((await screen.findByText("POST")).parentElement?.textContent).toBe("POST https://api.example.com/x");
    expect(screen.getByLabelText("Body").textContent).toBe("<script>");
  });
});
