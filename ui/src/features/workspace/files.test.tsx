import { createRoute } from "@tanstack/react-router";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { Files } from "./Files";

const bytes = (text: string) => new TextEncoder().encode(text);

// A file is compared with what it was before any step that changed it.
it("a file is compared with any step", async () => {
  const asked = vi.fn();
  const page = createRoute({ path: "/files", getParentRoute: () => shellRoute, component: () => <Files of={{ case: "taskId", value: "task_1" }} live={false} /> });
  showPage("/files", [page], (r) => {
    r.service(FileService, {
      listFiles: () => ({ files: [{ path: "a.txt", type: "file", size: 8n }] }),
      readFile: () => ({ content: bytes("new\nend\n"), size: 8n }),
    });
    r.service(WorkspaceService, {
      listChanges: () => ({
        steps: [
          { stepId: "step_1", number: 1, tool: "file_write", changes: [{ path: "a.txt" }] },
          { stepId: "step_2", number: 2, tool: "file_write", changes: [{ path: "other" }] },
          { stepId: "step_3", number: 3, tool: "shell_exec", changes: [{ path: "a.txt" }] },
        ],
      }),
      async *diffChanges(req) {
        asked(req.stepIds, req.path);
        yield { change: { path: "a.txt" }, unified: bytes("@@ -1,2 +1,2 @@\n-old\n+new\n end\n") };
      },
    });
  });
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: /a\.txt/ }));
  const compare = await screen.findByLabelText("Compare with");
  expect([...compare.querySelectorAll("option")].map((o) => o.value)).toEqual(["", "step_1", "step_3"]);
  await user.selectOptions(compare, "step_1");
  await waitFor(() => expect(asked).toHaveBeenCalledWith(["step_1", "step_3"], "a.txt"));
  const diff = await screen.findByTestId("diff");
  await waitFor(() => expect(diff.textContent).toContain("old"));
});

it("a file is shown in the colours of its language, Markdown is rendered, and one is downloaded whole", async () => {
  const page = createRoute({ path: "/files", getParentRoute: () => shellRoute, component: () => <Files of={{ case: "taskId", value: "task_1" }} live={false} /> });
  const asked = vi.fn();
  const saved = vi.fn((_: Blob) => "blob:x");
  Object.assign(URL, { createObjectURL: saved, revokeObjectURL: vi.fn() });
  showPage("/files", [page], (r) => {
    r.service(FileService, {
      listFiles: () => ({ files: [{ path: "README.md", type: "file", size: 9n }, { path: "main.go", type: "file", size: 9n }, { path: "logo.png", type: "file", size: 9n }] }),
      readFile: (req) => ({ content: bytes(req.path === "main.go" ? "package a\n" : "# Title\n"), size: 9n }),
      async *downloadFiles(req) {
        asked(req.entries[0]?.path, req.entries[0]?.size);
        yield { message: { case: "entry" as const, value: { path: "main.go" } } };
        yield { message: { case: "data" as const, value: bytes("package a\n") } };
      },
    });
    r.service(WorkspaceService, { listChanges: () => ({ steps: [] }) });
  });
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: /main\.go/ }));
  await waitFor(() => expect(document.querySelector("pre .text-info")?.textContent).toBe("package"));
  await user.click(screen.getByRole("button", { name: "Download main.go" }));
  await waitFor(() => expect(saved).toHaveBeenCalled());
  expect(asked).toHaveBeenCalledWith("main.go", 9n);
  expect(saved.mock.calls[0]![0].size).toBe(10);
  await user.click(screen.getByRole("button", { name: /README\.md/ }));
  await user.click(await screen.findByRole("button", { name: "Preview" }));
  expect(await screen.findByRole("heading", { name: "Title" })).toBeDefined();
  await user.click(screen.getByRole("button", { name: /logo\.png/ }));
  expect(await screen.findByRole("img", { name: "logo.png" })).toBeDefined();
});

it("the files of a jail are looked at, and not changed", async () => {
  const page = createRoute({ path: "/files", getParentRoute: () => shellRoute, component: () => <Files of={{ case: "jail", value: { nodeId: "node_1", jailId: "agent-1" } }} live={false} /> });
  const asked = vi.fn();
  showPage("/files", [page], (r) => {
    r.service(FileService, {
      listFiles: (req) => (asked(req.workspace), { files: [{ path: "a.txt", type: "file", size: 4n }] }),
      readFile: (req) => (asked(req.workspace), { content: bytes("text"), size: 4n }),
    });
  });
  await userEvent.setup().click(await screen.findByRole("button", { name: /a\.txt/ }));
  expect(await screen.findByText("text")).toBeDefined();
  expect(asked.mock.calls.map(([w]) => w as unknown)).toMatchObject([1, 2].map(() => ({ case: "jail", value: { nodeId: "node_1", jailId: "agent-1" } })));
  expect(screen.queryByRole("button", { name: "Upload files" })).toBeNull();
  expect(screen.queryByLabelText("Compare with")).toBeNull();
});
