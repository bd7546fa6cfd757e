import { create } from "@bufbuild/protobuf";
import { PlanItemSchema, type EditTaskPlanRequest, type PlanItem } from "@/gen/deckhand/v1/task_plan_pb";

// changed returns the items of a plan with a change that the hub has not made: that of a plan
// which is sent whole. A new item gets an id of this page, "new N".
export function changed(items: PlanItem[], change: EditTaskPlanRequest["change"]): PlanItem[] {
  switch (change.case) {
    case "add": {
      const item = change.value.item ?? create(PlanItemSchema);
      return insert(items, { ...item, id: item.id || freshId(items), status: item.status || "pending" }, change.value.parent, change.value.before);
    }
    case "remove":
      return without(items, change.value.id);
    case "move": {
      const { id, parent, before } = change.value;
      const moved = find(items, id);
      return moved ? insert(without(items, id, true), moved, parent, before) : items;
    }
    case "mark": {
      const { id, status } = change.value;
      return each(items, (i) => (i.id === id ? { ...i, status } : i));
    }
    default:
      return items;
  }
}

const each = (items: PlanItem[], fn: (i: PlanItem) => PlanItem): PlanItem[] => items.map((i) => fn({ ...i, children: each(i.children, fn) }));

const find = (items: PlanItem[], id: string): PlanItem | undefined => {
  for (const i of items) {
    const found = i.id === id ? i : find(i.children, id);
    if (found) return found;
  }
  return undefined;
};

// without removes an item with its parts and, unless it is to come back, the dependencies on them.
function without(items: PlanItem[], id: string, comesBack = false): PlanItem[] {
  const gone = new Set<string>();
  const note = (i: PlanItem) => {
    gone.add(i.id);
    i.children.forEach(note);
  };
  const removed = find(items, id);
  if (removed && !comesBack) note(removed);
  const clean = (list: PlanItem[]): PlanItem[] =>
    list.filter((i) => i.id !== id).map((i) => ({ ...i, dependsOn: i.dependsOn.filter((on) => !gone.has(on)), children: clean(i.children) }));
  return clean(items);
}

function insert(items: PlanItem[], item: PlanItem, parent: string, before: string): PlanItem[] {
  if (parent) return items.map((i) => ({ ...i, children: i.id === parent ? insert(i.children, item, "", before) : insert(i.children, item, parent, before) }));
  const at = before ? items.findIndex((i) => i.id === before) : -1;
  return at < 0 ? [...items, item] : [...items.slice(0, at), item, ...items.slice(at)];
}

function freshId(items: PlanItem[]): string {
  let n = 1;
  while (find(items, `new ${n}`)) n++;
  return `new ${n}`;
}
