import { create } from "@bufbuild/protobuf";
import { createRoute } from "@tanstack/react-router";
import { fireEvent, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { StepSchema } from "@/gen/deckhand/v1/step_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import type { LiveEvent } from "@/live/event";
import { showPage } from "@/test/page";
import { Seen } from "./Seen";
import { Threads, type Call } from "./thread";

let seq = 0;
const e = (type: string, payload: Record<string, unknown>): LiveEvent => ({ taskId: "t", seq: ++seq, type, time: seq, actorKind: "worker", actorId: "w", attempt: 1, payload });
const called = (tool: string, outcome: Record<string, unknown>) =>
  new Threads().of([
    e("tool_selected", { step_id: "step_1", number: 7, turn: 1, tool, arguments: { path: "a.png" } }),
    e("tool_executing", { step_id: "step_1", number: 7, tool }),
    e("tool_completed", { step_id: "step_1", state: "succeeded", outcome }),
  ]).entries[0] as Call;

const show = (call: Call, asked: (images: boolean) => void, step: object) => {
  const page = createRoute({ getParentRoute: () => shellRoute, path: "/seen", component: () => <><p>The step</p><Seen call={call} taskId="t" /></> });
  showPage("/seen", [page], (r) =>
    r.service(TaskService, {
      listSteps: (req) => {
        asked(req.images);
        return { steps: [create(StepSchema, { id: req.stepId, ...step })] };
      },
    }),
  );
};

it("shows the pictures that the model saw, and no drawing that could run something", async () => {
  const asked = vi.fn();
  show(called("file_view", { images: 2 }), asked, {
    images: [
      { mediaType: "image/png", data: new Uint8Array([1, 2, 3]) },
      { mediaType: "image/svg+xml", data: new TextEncoder().encode("<svg onload='x()'/>") },
    ],
  });
  const button = await screen.findByRole("button", { name: "Show 2 pictures" });
  expect(asked).not.toHaveBeenCalled();
  await userEvent.click(button);
  expect((await screen.findByAltText("Picture 1 of step 7")).getAttribute("src")).toBe("data:image/png;base64,AQID");
  expect(screen.getAllByRole("img")).toHaveLength(1);
  expect(asked).toHaveBeenCalledExactlyOnceWith(true);
});

it("draws a box over the picture of an action, around what was acted on", async () => {
  show(called("browser_click", { pictures: 1 }), vi.fn(), {
    images: [{ mediaType: "image/jpeg", data: new Uint8Array([1, 2, 3]), forPeople: true, mark: { left: 320, top: 80, width: 640, height: 40 } }],
  });
  await userEvent.click(await screen.findByRole("button", { name: "Show picture" }));
  const picture = await screen.findByAltText("Picture 1 of step 7, with a box around what was acted on");
  expect(screen.queryByTestId("target")).toBeNull();
  Object.defineProperties(picture, { naturalWidth: { value: 1280 }, naturalHeight: { value: 800 } });
  fireEvent.load(picture);
  const { left, top, width, height } = screen.getByTestId("target").style;
  expect([left, top, width, height]).toEqual(["25%", "10%", "50%", "5%"]);
});

it("shows a terminal's screen as it was, with what is not visible in it marked", async () => {
  const asked = vi.fn();
  show(called("terminal_read", {}), asked, { observation: "menu\u202e\n> first" });
  await userEvent.click(await screen.findByRole("button", { name: "Show screen" }));
  expect((await screen.findByLabelText("Screen after step 7")).textContent).toContain("> first");
  expect(document.querySelector("[data-mark]")).not.toBeNull();
  expect(asked).toHaveBeenCalledExactlyOnceWith(false);
});

it("has nothing to show of a call that returned text", async () => {
  const asked = vi.fn();
  show(called("file_read", {}), asked, {});
  await screen.findByText("The step");
  expect(screen.queryByRole("button", { name: /Show (screen|picture)/ })).toBeNull();
});

it("says of a subtask that is partly done what it is", () => {
  const thread = new Threads().of([
    e("tool_selected", { step_id: "step_1", number: 1, turn: 1, tool: "delegate", arguments: {} }),
    e("agent.subtask.created", { step_id: "step_1", task_id: "task_2", agent: "hand", goal: "count" }),
    e("agent.subtask.ended", { step_id: "step_1", task_id: "task_2", agent: "hand", state: "failed", error_code: "AGENT_029", cost_micros: 0 }),
  ]);
  expect((thread.entries[0] as Call).subtasks[0]!.state).toBe("partly done");
});
