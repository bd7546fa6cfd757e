import { createRoute } from "@tanstack/react-router";
import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { ChangeKind, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { Changes } from "./Changes";

const bytes = (text: string) => new TextEncoder().encode(text);

// show renders the changes of a task that changed a file of its workspace, and one of a machine.
function show(role: string, undone: (steps: string[], preview: boolean) => void) {
  const page = createRoute({ path: "/changes", getParentRoute: () => shellRoute, component: () => <Changes taskId="task_1" /> });
  showPage("/changes", [page], (r) => {
    r.service(WorkspaceService, {
      listChanges: () => ({
        steps: [
          { stepId: "step_1", number: 1, tool: "file_write", files: 1, changes: [{ path: "notes.txt", kind: ChangeKind.ADDED }] },
          { stepId: "step_2", number: 2, tool: "host_exec", files: 1, machine: "web-1", changes: [{ path: "/etc/nginx/nginx.conf", kind: ChangeKind.MODIFIED }] },
        ],
      }),
      async *diffChanges() {
        yield { change: { path: "notes.txt", kind: ChangeKind.ADDED, after: { type: "file" } }, unified: bytes("--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+note\n"), addedLines: 1 };
        yield role === "admin"
          ? { change: { path: "/etc/nginx/nginx.conf", kind: ChangeKind.MODIFIED }, machine: "web-1", unified: bytes("--- a/etc/nginx/nginx.conf\n+++ b/etc/nginx/nginx.conf\n@@ -1 +1 @@\n-old\n+new\n"), addedLines: 1, deletedLines: 1 }
          : { change: { path: "/etc/nginx/nginx.conf", kind: ChangeKind.MODIFIED }, machine: "web-1", summary: "only administrators see what a file of a machine contains" };
      },
      undoChanges: (req) => {
        undone(req.stepIds, req.preview);
        return { applied: !req.preview, files: 1, state: 7n, changes: [{ path: "/etc/nginx/nginx.conf", kind: ChangeKind.MODIFIED }] };
      },
    });
  }, role);
}

// fileRow returns the row of a file in the list by file.
async function fileRow(path: string): Promise<HTMLElement> {
  const list = await screen.findByRole("list", { name: "Changed files" });
  return (await within(list).findAllByRole("button", { name: new RegExp(path) }))[0]!.closest("li")!;
}

it("an administrator sees which files of a machine a task changed, and undoes them by their step", async () => {
  const undone = vi.fn();
  show("admin", undone);
  const user = userEvent.setup();
  const machine = await fileRow("nginx\\.conf");
  expect(machine.textContent).toContain("on machine web-1");
  expect(machine.textContent).toContain("new");
  expect((await fileRow("notes\\.txt")).textContent).not.toContain("on machine");
  // A file of a machine is undone with its step.
  expect(within(machine).queryByRole("button", { name: /^Undo \/etc/ })).toBeNull();
  await user.click(within(machine).getByRole("button", { name: "Show the steps that changed /etc/nginx/nginx.conf" }));
  await user.click(await screen.findByRole("button", { name: "Undo step 2" }));
  const dialog = await screen.findByRole("dialog");
  await user.click(await within(dialog).findByRole("button", { name: "Undo 1 file" }));
  await vi.waitFor(() => expect(undone).toHaveBeenCalledWith(["step_2"], false));
  expect(undone).toHaveBeenCalledWith(["step_2"], true);
  await screen.findByRole("button", { name: "Undo all in the workspace" });
});

it("somebody else sees their names, and undoes the workspace only", async () => {
  show("basic", vi.fn());
  const user = userEvent.setup();
  const machine = await fileRow("nginx\\.conf");
  expect(machine.textContent).toContain("only administrators see");
  expect(within(machine).queryByRole("button", { name: /Undo|Show the steps/ })).toBeNull();
  expect(screen.getByText(/An administrator can undo them/)).toBeDefined();
  await user.click(screen.getByRole("button", { name: "By step" }));
  await screen.findByRole("button", { name: "Undo step 1" });
  expect(screen.queryByRole("button", { name: "Undo step 2" })).toBeNull();
});
