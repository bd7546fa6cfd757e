import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { EditTaskPlanRequestSchema, PlanItemSchema, type EditTaskPlanRequest, type PlanItem } from "@/gen/deckhand/v1/task_plan_pb";
import { changed } from "./planChange";

const item = (id: string, children: PlanItem[] = [], dependsOn: string[] = []) => create(PlanItemSchema, { id, title: id.toUpperCase(), status: "pending", children, dependsOn });
const shape = (items: PlanItem[]): string => items.map((i) => i.id + (i.status === "done" ? "!" : "") + (i.dependsOn.length > 0 ? `>${i.dependsOn.join("+")}` : "") + (i.children.length > 0 ? `(${shape(i.children)})` : "")).join(" ");
const edit = (change: EditTaskPlanRequest["change"]) => create(EditTaskPlanRequestSchema, { change }).change;

it("a draft of a plan changes as the hub changes a plan", () => {
  const plan = [item("a", [item("a1"), item("a2")]), item("b", [], ["a1", "c"]), item("c")];
  const after = (change: Parameters<typeof edit>[0]) => shape(changed(plan, edit(change)));
  expect(after({ case: "mark", value: { $typeName: "deckhand.v1.MarkPlanItem", id: "a2", status: "done" } })).toBe("a(a1 a2!) b>a1+c c");
  expect(after({ case: "remove", value: { $typeName: "deckhand.v1.RemovePlanItem", id: "a" } })).toBe("b>c c");
  expect(after({ case: "move", value: { $typeName: "deckhand.v1.MovePlanItem", id: "c", parent: "a", before: "a2" } })).toBe("a(a1 c a2) b>a1+c");
  expect(after({ case: "move", value: { $typeName: "deckhand.v1.MovePlanItem", id: "c", parent: "", before: "a" } })).toBe("c a(a1 a2) b>a1+c");
  const added = changed(plan, edit({ case: "add", value: { $typeName: "deckhand.v1.AddPlanItem", parent: "a1", before: "", item: item("") } }));
  expect(shape(added)).toBe("a(a1(new 1) a2) b>a1+c c");
  expect(shape(changed(added, edit({ case: "add", value: { $typeName: "deckhand.v1.AddPlanItem", parent: "", before: "b", item: item("") } })))).toBe("a(a1(new 1) a2) new 2 b>a1+c c");
  expect(shape(plan)).toBe("a(a1 a2) b>a1+c c");
});
