import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const sources = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((f) => /\.tsx?$/.test(f) && !/\.test\.tsx?$/.test(f) && !f.startsWith("gen/"));

it("declares text as output where output is read, and nowhere else", () => {
  const declares = sources.filter((f) => /\bprinted\(|\bas Printed\b|\bas unknown as Printed\b/.test(readFileSync(join("src", f), "utf8")));
  expect(declares.sort()).toEqual(["features/log/ansi.ts", "features/log/inert.ts"]);
});
