import { render } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { Editor } from "./Editor";

it("shows what hides in a persona as chips with their names", () => {
  const { container } = render(<Editor value={"name: x\nRun \u202els\u200b\u00a0now"} onChange={vi.fn()} remarks={[]} />);
  expect([...container.querySelectorAll("[data-mark]")].map((c) => c.getAttribute("data-mark"))).toEqual([
    "U+202E RIGHT-TO-LEFT OVERRIDE",
    "U+200B ZERO WIDTH SPACE",
    "U+00A0 NO-BREAK SPACE",
  ]);
});
