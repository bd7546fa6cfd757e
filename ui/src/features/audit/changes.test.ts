import { expect, test } from "vitest";
import { changesOf } from "./changes";
import { parseAuditSearch } from "./search";

test("an entry shows what differs, and nothing else", () => {
  expect(changesOf({ role: "viewer", name: "a" }, { role: "admin", name: "a", disabled: true })).toEqual([
    { field: "disabled", before: "", after: "true" },
    { field: "role", before: "viewer", after: "admin" },
  ]);
  expect(changesOf(undefined, { list: [1, { x: 2 }] })).toEqual([{ field: "list", before: "", after: '[1,{"x":2}]' }]);
  expect(changesOf({}, {})).toEqual([]);
});

test("filters of an address are read, and what is odd is left out", () => {
  expect(parseAuditSearch({ object: "task_1", by: 7, action: "", other: "x" })).toEqual({
    object: "task_1",
    by: undefined,
    action: undefined,
  });
  expect(parseAuditSearch({ action: "x".repeat(100) }).action).toHaveLength(64);
});
