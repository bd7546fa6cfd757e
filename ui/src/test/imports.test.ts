import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, it } from "vitest";

const root = resolve("src");
const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((f) => /\.tsx?$/.test(f))
  .map((f) => join(root, f));
const known = new Set(files);

// importsOf returns the files of this console that a file imports, types and lazy
// imports included.
function importsOf(file: string): string[] {
  const from = [...readFileSync(file, "utf8").matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g)].map((m) => m[1]!);
  return from
    .filter((name) => name.startsWith("@/") || name.startsWith("."))
    .map((name) => (name.startsWith("@/") ? join(root, name.slice(2)) : resolve(dirname(file), name)))
    .flatMap((path) => [path, `${path}.ts`, `${path}.tsx`].filter((p) => known.has(p)));
}

// circle returns a chain of imports from a file back to itself, the shortest one.
function circle(start: string, imports: ReadonlyMap<string, string[]>): string[] | undefined {
  const ways: string[][] = [[start]];
  const seen = new Set<string>();
  for (const way of ways) {
    for (const next of imports.get(way.at(-1)!) ?? []) {
      if (next === start) return [...way, next];
      if (!seen.has(next)) ways.push([...way, next]);
      seen.add(next);
    }
  }
  return undefined;
}

it("has no import circle", () => {
  const imports = new Map(files.map((f) => [f, importsOf(f)]));
  expect([...imports.values()].flat().length, "imports that were found").toBeGreaterThan(files.length);
  const circles = files.map((f) => circle(f, imports)?.map((p) => relative(root, p)).join(" -> ")).filter(Boolean);
  expect(circles).toEqual([]);
});
