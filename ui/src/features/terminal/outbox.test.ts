import { expect, it } from "vitest";
import { Outbox } from "./outbox";

it("loses nothing that is typed before the connection is open, and keeps its order", () => {
  const sent: string[] = [];
  const out = new Outbox<string>((m) => sent.push(m));
  for (const key of "rm -r") out.push(key);
  expect(sent).toEqual([]);
  out.open("open");
  for (const key of " x") out.push(key);
  expect(sent.join("")).toBe("openrm -r x");
});
