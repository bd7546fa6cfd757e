import { expect, test } from "vitest";
import { cell } from "./csv";

// The cases of the command line (cmd/deckhand/cli/output/spreadsheet_test.go).
test("a spreadsheet takes no text for a formula", () => {
  for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\tx"]) expect(cell(text)).toBe(`'${text}`);
  expect(cell("\r=1")).toBe(`"'\r=1"`);
  for (const text of ["", "walker", "a=b", "web-1", "2026-11-27"]) expect(cell(text)).toBe(text);
});
