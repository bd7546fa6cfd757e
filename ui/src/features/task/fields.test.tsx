import { describe, expect, it } from "vitest";
import type { ActObject } from "@/components/marks";
import { after } from "@/features/inbox/change";
import fields from "./fields.json";
import { titles } from "./tools";

// recording are arguments that remember which of them are read. Each of them is text.
function recording(read: Set<string>): ActObject {
  return new Proxy(
    {},
    {
      get(_, name) {
        read.add(String(name));
        return "x";
      },
    },
  );
}

// hub/tool compares fields.json with the schemas of the tools.
describe("what the console reads of a call", () => {
  it.each([...new Set([...Object.keys(titles), ...Object.keys(fields)])])("is named in fields.json: %s", (tool) => {
    const read = new Set<string>();
    titles[tool]?.(recording(read));
    after(tool, recording(read), "x");
    if (tool in { file_write: 1, file_append: 1, file_edit: 1 }) read.add("path"); // the file that is compared
    expect([...read].sort()).toEqual([...((fields as Record<string, string[]>)[tool] ?? ["no entry"])].sort());
  });
});
