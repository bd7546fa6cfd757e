import { createRoute } from "@tanstack/react-router";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { ChangeKind, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { ByFile } from "./ByFile";

it("a line of a diff is commented where it stands, and the agent is told the place", async () => {
  const told = vi.fn();
  const page = createRoute({ path: "/changes", getParentRoute: () => shellRoute, component: () => <ByFile taskId="task_1" comment="coder" /> });
  showPage("/changes", [page], (r) => {
    r.service(WorkspaceService, {
      async *diffChanges() {
        yield { change: { path: "docs/guide.md", kind: ChangeKind.MODIFIED }, unified: new TextEncoder().encode("--- a\n+++ b\n@@ -7,2 +7,2 @@\n-old\n+new\n end\n"), addedLines: 1, deletedLines: 1 };
      },
    });
    r.service(TaskService, { tellTask: (req) => (told(req.taskId, req.text), {}) });
  });
  const user = userEvent.setup();
  const diff = await screen.findByTestId("diff");
  await user.click(diff.querySelector('[data-number="8"]')!);
  expect(await screen.findByLabelText<HTMLInputElement>("Lines")).toHaveProperty("value", "8");
  await user.keyboard("Keep the end.");
  await user.click(screen.getByRole("button", { name: "Send" }));
  await waitFor(() => expect(told).toHaveBeenCalledWith("task_1", "About your change of docs/guide.md, line 8:\nKeep the end."));
});
