import { describe, expect, it } from "vitest";
import type { ActObject } from "@/components/marks";
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
    expect((fields as Record<string, string[]>)[tool] ?? ["no entry"]).toEqual(expect.arrayContaining([...read]));
  });
});
