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
  const page = createRoute({ path: "/files", getParentRoute: () => shellRoute, component: () => <Files taskId="task_1" live={false} /> });
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
