import { create } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";
import { BrowserService, ReadBrowserRecordingResponseSchema } from "@/gen/deckhand/v1/browser_pb";
import { MomentSchema, EventService } from "@/gen/deckhand/v1/event_pb";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { TaskSchema, TaskService, TaskState } from "@/gen/deckhand/v1/task_pb";
import { ChangeKind, UndoChangesResponseSchema, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { replayRoutes } from "./route";

const time = (s: number) => ({ seconds: BigInt(1_760_000_000 + s), nanos: 0 });
const step = (n: number) => ({ step: n, stepId: `step_${n}`, tool: "file_write" });
const moments = [
  { type: "state_changed", state: "running" },
  ...[1, 2, 3].flatMap((n) => [
    { type: "thinking", turn: n, title: `I write ${n}` },
    { type: "tool_selected", ...step(n), turn: n, title: `notes-${n}.md` },
    { type: "tool_executing", ...step(n) },
    { type: "tool_completed", ...step(n), state: "succeeded", files: 1 },
    { type: "iteration_complete", turn: n, usage: { inputTokens: 1000n, costMicros: 250_000n } },
  ]),
  { type: "state_changed", state: "succeeded" },
].map((m, i) => create(MomentSchema, { ...m, seq: BigInt(i + 1), time: time(i) } as never));

function show(path: string) {
  const asked = { files: [] as string[], undone: [] as unknown[] };
  const page = showPage(path, replayRoutes, (hub) => {
    hub.service(TaskService, {
      getTask: () => ({ task: create(TaskSchema, { id: "task_1", title: "Write notes", state: TaskState.SUCCEEDED }) }),
    });
    hub.service(EventService, {
      // Two pages, as of a long run.
      listMoments: (r) => (r.pageToken ? { moments: moments.slice(8) } : { moments: moments.slice(0, 8), nextPageToken: "next" }),
    });
    hub.service(FileService, {
      listFiles: (r) => {
        asked.files.push(r.stepId);
        return { files: [{ path: "notes.md", type: "file", size: 10n }], state: 1n };
      },
      readFile: (r) => ({ content: new TextEncoder().encode(`text after ${r.stepId}`), size: 10n }),
    });
    hub.service(WorkspaceService, {
      // eslint-disable-next-line require-yield
      diffChanges: async function* () {},
      listChanges: () => ({ steps: [1, 2, 3].map((n) => ({ stepId: `step_${n}`, number: n, files: 1 })) }),
      undoChanges: (r) => {
        asked.undone.push([r.stepIds, r.preview]);
        return create(UndoChangesResponseSchema, { applied: !r.preview, files: 1, state: 7n, changes: [{ path: "notes.md", kind: ChangeKind.MODIFIED }] });
      },
    });
  });
  return { ...page, asked };
}

// jsdom lays nothing out, and the thread draws what is in sight.
Object.defineProperty(Element.prototype, "clientHeight", { configurable: true, value: 600 });

const counters = () => screen.getByTestId("counters").textContent;

describe("the replay of a run", () => {
  it("opens at the step of its address, with the files of that step", async () => {
    const { asked } = show("/tasks/task_1/replay?at=step_2");
    await waitFor(() => expect(counters()).toBe("runningturn 21 iteration2 steps ended1K tokens$0.25"));
    const thread = screen.getByRole("group", { name: "Thread until this moment" });
    await within(thread).findByText("notes-2.md");
    expect(within(thread).queryByText("notes-3.md")).toBeNull();
    await userEvent.click(await screen.findByRole("button", { name: /notes\.md/ }));
    await screen.findByText("text after step_2");
    expect(asked.files).toEqual(["step_2"]);
  });

  it("goes by keys, and the address follows", async () => {
    const { history } = show("/tasks/task_1/replay?at=step_2");
    await waitFor(() => expect(counters()).toContain("2 steps ended"));
    await screen.findByText("I write 2");
    await userEvent.keyboard("{ArrowRight}");
    await waitFor(() => expect(counters()).toContain("3 steps ended"));
    await waitFor(() => expect(history.location.search).toContain("at=step_3"));
    await userEvent.keyboard("{ArrowLeft}{ArrowLeft}");
    await waitFor(() => expect(counters()).toContain("1 step ended"));
    await userEvent.keyboard("{Shift>}{ArrowRight}{/Shift}");
    await waitFor(() => expect(counters()).toContain("turn 2"));
    await userEvent.keyboard("{Home}");
    await waitFor(() => expect(counters()).toContain("0 steps ended"));
    await screen.findByText("No step had ended yet");
    await userEvent.keyboard("{End}");
    await waitFor(() => expect(counters()).toContain("succeeded"));
  });

  it("says that a moment of the address is not in the run, and shows the end", async () => {
    show("/tasks/task_1/replay?at=step_gone");
    await screen.findByText(/has no moment/);
    expect(counters()).toContain("3 steps ended");
  });

  it("shows what was recorded of a browser at each moment", async () => {
    const drawn: Blob[] = [];
    let reads = 0;
    URL.createObjectURL = (blob) => `blob:${drawn.push(blob as Blob)}`;
    URL.revokeObjectURL = () => {};
    const browsed = moments.map((m) => create(MomentSchema, { ...m, tool: m.tool && "browser_navigate" } as never));
    showPage("/tasks/task_1/replay?at=step_2&show=browser", replayRoutes, (hub) => {
      hub.service(TaskService, { getTask: () => ({ task: create(TaskSchema, { id: "task_1", title: "Browse", state: TaskState.SUCCEEDED }) }), listSteps: () => ({}) });
      hub.service(EventService, { listMoments: () => ({ moments: browsed }) });
      hub.service(BrowserService, {
        readBrowserRecording: async function* () {
          reads++;
          for (const [i, title] of ["First", "Second"].entries()) {
            yield create(ReadBrowserRecordingResponseSchema, { frame: { time: time(6 + 5 * i), url: "http://localhost/", title, jpeg: new Uint8Array([i]), width: 1280, height: 800 } });
          }
        },
      });
    });
    await screen.findByRole("img", { name: "What the browser showed: First" });
    await userEvent.keyboard("{End}");
    await screen.findByRole("img", { name: "What the browser showed: Second" });
    expect(screen.getByTestId("address").textContent).toContain("http://localhost/ Second");
    await userEvent.keyboard("{Home}");
    await screen.findByText("No picture yet");
    await userEvent.click(screen.getByRole("tab", { name: "Plan" }));
    await userEvent.click(screen.getByRole("tab", { name: "Browser" }));
    await screen.findByText("No picture yet");
    expect(reads).toBe(1);
  });

  it("undoes what came later, after a preview", async () => {
    const { asked } = show("/tasks/task_1/replay?at=step_1");
    await waitFor(() => expect(counters()).toContain("1 step ended"));
    await userEvent.click(screen.getByRole("button", { name: "Undo back to here" }));
    await userEvent.click(await screen.findByRole("button", { name: "Undo 1 file" }));
    await waitFor(() => expect(asked.undone.slice(0, 2)).toEqual([[["step_2", "step_3"], true], [["step_2", "step_3"], false]]));
  });
});
