import { create } from "@bufbuild/protobuf";
import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { StepSchema } from "@/gen/deckhand/v1/step_pb";
import { TaskSchema, TaskService, TaskState } from "@/gen/deckhand/v1/task_pb";
import { showPage } from "@/test/page";
import { align } from "./align";
import { compareRoutes } from "./route";

const steps = (run: string, commands: string[]) =>
  commands.map((command, i) => create(StepSchema, { id: `step_${run}${i + 1}`, number: i + 1, tool: "shell_exec", arguments: { command } }));

const words = (a: string, b: string) => {
  const { pairs, parted } = align(steps("a", [...a]), steps("b", [...b]));
  const one = (s: (typeof pairs)[number]["a"]) => String(s?.arguments?.command ?? "-");
  return [pairs.map((p) => one(p.a) + one(p.b)).join(" "), parted, pairs.filter((p) => p.same).length];
};

describe("align", () => {
  it("puts equal calls side by side, and says where runs part", () => {
    expect(words("abc", "abc")).toEqual(["aa bb cc", 3, 3]);
    expect(words("abxcd", "abycd")).toEqual(["aa bb xy cc dd", 2, 4]);
    expect(words("abcd", "abxycd")).toEqual(["aa bb -x -y cc dd", 2, 4]);
    expect(words("", "ab")).toEqual(["-a -b", 0, 0]);
    expect(words("ab", "")).toEqual(["a- b-", 0, 0]);
  });

  it("loses no step of runs that have nothing in common, whatever their length", () => {
    const { pairs } = align(steps("a", Array.from({ length: 3_000 }, (_, i) => `a${i}`)), steps("b", Array.from({ length: 2_500 }, (_, i) => `b${i}`)));
    expect(pairs.filter((p) => p.a)).toHaveLength(3_000);
    expect(pairs.filter((p) => p.b)).toHaveLength(2_500);
  });
});

describe("the comparison of two runs", () => {
  it("marks where they part, and has the differences of cost and result", async () => {
    showPage("/compare?a=task_a&b=task_b", compareRoutes, (hub) => {
      hub.service(TaskService, {
        getTask: (r) => ({
          task: create(TaskSchema, {
            id: r.taskId, title: r.taskId, iteration: 3,
            state: r.taskId === "task_a" ? TaskState.FAILED : TaskState.SUCCEEDED,
            usage: { costMicros: r.taskId === "task_a" ? 2_000_000n : 500_000n },
          }),
        }),
        listSteps: (r) => ({ steps: steps(r.taskId, r.taskId === "task_a" ? ["ls", "make", "make again"] : ["ls", "make", "make test"]) }),
      });
    });
    expect((await screen.findByTestId("parted")).textContent).toBe("The runs part at step 3 of the first and step 3 of the second, after 2 equal steps.");
    expect(screen.getByText("−$1.50")).toBeTruthy();
    expect(screen.getByText("failed → succeeded")).toBeTruthy();
    const parted = document.querySelector("[data-parted]")!;
    expect(parted.textContent).toContain("make again");
    expect(parted.textContent).toContain("make test");
  });
});
