import { create } from "@bufbuild/protobuf";
import { render, screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { TaskCheckpointSchema, TaskSchema } from "@/gen/deckhand/v1/task_pb";
import { pointOf } from "./checkpoint";
import { Limits } from "./Limits";

describe("the limits of a run", () => {
  it("are shown with what is used", () => {
    const task = create(TaskSchema, { iteration: 45, usage: { costMicros: 2_500_000n } });
    const limits = { iterations: 50, cost_usd: 10, files: 1000, file_size_bytes: 100 << 20 };
    render(<Limits task={task} thread={{ limits, changed: { files: 12, largest: 5 << 20 } }} />);
    const rows = screen.getAllByRole("row").map((r) => r.textContent);
    expect(rows).toEqual([
      "LimitUsedAt most", "Iterations4550", "Cost$2.50$10.00", "Changed files121,000", "Largest changed file5.0 MiB100 MiB",
    ]);
  });
  it("are not shown before the run has begun", () => {
    const { container } = render(<Limits task={create(TaskSchema)} thread={{ limits: {} }} />);
    expect(container.textContent).toBe("");
  });
});

describe("a checkpoint", () => {
  it("is the end of an iteration, or the point before the calls of the next", () => {
    expect(pointOf(create(TaskCheckpointSchema, { iteration: 4, phase: "iterate" }))).toBe("End of iteration 4");
    expect(pointOf(create(TaskCheckpointSchema, { iteration: 4, phase: "select_tool" }))).toBe("Before the calls of iteration 5");
  });
});
