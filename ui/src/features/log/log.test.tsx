import { create } from "@bufbuild/protobuf";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { IndexNodeLogResponseSchema, SearchNodeLogResponseSchema } from "@/gen/deckhand/v1/node_exec_pb";
import { Random } from "@/test/random";
import { runsOf } from "./ansi";
import { LogView } from "./LogView";
import { RemoteLog } from "./remote";
import { joined, Rows } from "./rows";
import { rowBytes, type Source } from "./source";

const encode = (s: string) => new TextEncoder().encode(s);

// sourceOf is a log that has ended, indexed as the node does it, with marks that are
// as far apart as they are asked for, and so many bytes of it in one call.
function sourceOf(data: Uint8Array, stride = 64 * 1024, budget = Infinity): Source & { read_: { offset: number; bytes: number }[] } {
  const read_: { offset: number; bytes: number }[] = [];
  return {
    read_,
    async index({ offset }) {
      let [rows, lines, begin, marked] = [0, 0, offset, offset];
      const marks = [{ offset: BigInt(offset), rows: 0n, lines: 0n, continued: offset > 0 && data[offset - 1] !== 10 }];
      const next = (at: number, continued: boolean) => {
        begin = at;
        rows++;
        if (at - marked >= stride) {
          marks.push({ offset: BigInt(at), rows: BigInt(rows), lines: BigInt(lines), continued });
          marked = at;
        }
      };
      const stop = Math.min(data.length, offset + budget);
      for (let at = offset; at < stop; at++) {
        if (data[at] === 10) {
          lines++;
          next(at + 1, false);
        } else if (at - begin === rowBytes) next(at, true);
      }
      return create(IndexNodeLogResponseSchema, {
        marks, nextOffset: BigInt(begin), rows: BigInt(rows), lines: BigInt(lines), end: BigInt(data.length), complete: stop === data.length, ended: true,
        continued: begin > 0 && data[begin - 1] !== 10,
      });
    },
    async *read(offset, limit) {
      const end = limit ? Math.min(data.length, offset + limit) : data.length;
      read_.push({ offset, bytes: end - offset });
      if (end > offset) yield { offset, data: data.slice(offset, end), time: 1_000 };
    },
    async search(q, { offset = 0, end = 0, backwards, most }) {
      const text = new TextDecoder("latin1").decode(data);
      const all = [...text.matchAll(new RegExp(q.pattern, "g"))].map((m) => m.index).filter((i) => i >= offset && (!end || i < end));
      const some = backwards ? all.slice(-most) : all.slice(0, most);
      return create(SearchNodeLogResponseSchema, {
        matches: some.map((i) => {
          const from = text.lastIndexOf("\n", i) + 1;
          return { offset: BigInt(i), length: BigInt(q.pattern.length), excerpt: data.slice(from, data.indexOf(10, i)), excerptOffset: BigInt(from) };
        }),
        nextOffset: BigInt(some.at(-1) ?? data.length),
        complete: some.length === all.length,
      });
    },
  };
}

describe("the rows of a log", () => {
  it("are the text, whatever it is, and begin where the node counts them", async () => {
    const random = new Random(3);
    for (let i = 0; i < 12; i++) {
      const text = Array.from({ length: random.below(12) }, () => random.pick(["a\n", "Größe 👩‍💻\n", "x".repeat(random.below(5_000)), "é".repeat(random.below(3_000)), "\n", "tail"])).join("");
      const log = new RemoteLog(sourceOf(encode(text), 1_000));
      log.start();
      await waitFor(() => expect(log.ended).toBe(true));
      const rows: string[] = [];
      const numbers: number[] = [];
      for (let n = 0; n < log.size; n++) {
        await waitFor(() => expect(log.row(n)).toBeDefined());
        rows.push(log.row(n)!.text);
        numbers.push(log.row(n)!.number);
        expect(log.rowAt(log.row(n)!.offset)).toBe(n);
      }
      expect(rows.join("")).toBe(text.replaceAll("\n", ""));
      const lines = text.split("\n").length - (text === "" || text.endsWith("\n") ? 1 : 0);
      expect(numbers.filter(Boolean)).toEqual(Array.from({ length: lines }, (_, l) => l + 1));
      expect(log.lines).toBe(lines);
      log.stop();
    }
  });

  it("have line numbers that are not read again, however far apart", async () => {
    const apart = encode(`${"y".repeat(99)}\n`.repeat(700).repeat(40));
    const source = sourceOf(apart);
    const log = new RemoteLog(source);
    log.start();
    await waitFor(() => expect(log.ended).toBe(true));
    const offsets = Array.from({ length: 40 }, (_, i) => i * 70_000);
    // As a list of matches is drawn again with every part that was loaded.
    await waitFor(() => expect(offsets.map((o) => log.lineAt(o))).toEqual(offsets.map((o) => o / 100 + 1)));
    expect(source.read_.length).toBeLessThanOrEqual(60);
    log.stop();
  });

  it("keep colours that go on", () => {
    const rows = new Rows(0, encode("\u001b[31mred\nstill red\u001b[0m\nplain"), 0, false, []);
    expect([0, 1, 2].map((i) => rows.row(i)!.colours)).toEqual(["", "\u001b[31m", ""]);
  });

  it("have zeros where nothing was kept", () => {
    expect(joined([{ offset: 10, data: encode("a") }, { offset: 13, data: encode("b") }], 10)).toEqual(new Uint8Array([97, 0, 0, 98]));
  });
});

describe("the colours of output", () => {
  it.each([
    ["\u001b[31mFAIL\u001b[0m ok", [["FAIL", "text-bad"], [" ok", ""]]],
    ["\u001b[1;32mok", [["ok", "text-good font-semibold"]]],
    ["\u001b[8mhidden\u001b[0m", [["hidden", ""]]],
    ["\u001b[30;40mblack on black", [["black on black", "text-dim"]]],
    ["a\u001b]0;title\u0007\u001b[2Kb\u001b[1A", [["ab", ""]]],
    ["10%\r\u001b[32m100%\r", [["100%", "text-good"]]],
    ["\u001b[31", [["31", ""]]], // as much as a row had
    ["turned \u202e", [["turned \ufffd", ""]]],
  ])("%j", (text, want) => {
    const runs = runsOf(text).map((r) => [r.text, r.className]);
    expect(runs.length ? runs : [["", ""]]).toEqual(want);
  });

  it("of 256 and of 16 million are mixed with the theme's ink", () => {
    expect(runsOf("\u001b[38;5;196mx")[0]!.colour).toContain("rgb(255, 0, 0)");
    expect(runsOf("\u001b[38;2;1;2;3mx")[0]!.colour).toContain("rgb(1, 2, 3)");
  });
});

describe("LogView", () => {
  const long = encode(Array.from({ length: 300_000 }, (_, i) => (i % 100_000 === 77 ? `needle ${i}` : `line ${i + 1}`)).join("\n") + "\n");

  it("reads the end of a long log, and what is looked at, and no more", async () => {
    const source = sourceOf(long);
    render(<LogView source={source} name="x.log" label="Output" />);
    expect(await screen.findByText("line 300000")).toBeDefined();
    expect(screen.getByRole("status").textContent).toContain("300,000 lines");
    fireEvent.keyDown(screen.getByRole("log"), { key: "Home" });
    expect(await screen.findByText("line 1")).toBeDefined();
    fireEvent.keyDown(screen.getByRole("log"), { key: "End" });
    expect(await screen.findByText("line 300000")).toBeDefined();
    expect(source.read_.reduce((sum, r) => sum + r.bytes, 0)).toBeLessThan(600_000);
    expect(document.querySelectorAll("[role=log] *").length).toBeLessThan(400);
  });

  it("shows the end of a log while its rows are counted, and reads nothing that is not counted", async () => {
    const source = sourceOf(long, 64 * 1024, 500_000);
    let go = () => {};
    const counting = new Promise<void>((resolve) => (go = resolve));
    const index = source.index.bind(source);
    source.index = async (at, signal) => {
      if (at.offset > 0) await counting;
      return index(at, signal);
    };
    render(<LogView source={source} name="x.log" label="Output" line={undefined} />);
    expect(await screen.findByText("line 300000")).toBeDefined();
    expect(screen.getByRole("status").textContent).toMatch(/counting lines: 1\d %/);
    // A match that is not counted yet is gone to when it is.
    fireEvent.change(screen.getByLabelText("Find in the output"), { target: { value: "needle 200077" } });
    await waitFor(() => expect(screen.getByRole("status").textContent).toBe("1 of 1"));
    expect(source.read_.reduce((sum, r) => sum + r.bytes, 0)).toBeLessThan(200_000);
    go();
    await waitFor(() => expect(document.querySelector("mark")?.closest("div")?.textContent).toBe("200078needle 200077"));
    expect(source.read_.reduce((sum, r) => sum + r.bytes, 0)).toBeLessThan(600_000);
  });

  it("finds in a log that grows all the time", async () => {
    const source = sourceOf(long);
    let grown = 0;
    const index = source.index.bind(source);
    source.index = async (at, signal) => {
      const res = at.offset === 0 ? await index(at, signal) : create(IndexNodeLogResponseSchema, { nextOffset: BigInt(long.length) });
      return Object.assign(res, { end: BigInt(long.length + 10 * grown++), complete: true, ended: false });
    };
    render(<LogView source={source} name="x.log" label="Output" />);
    await waitFor(() => expect(grown).toBeGreaterThan(1));
    fireEvent.change(screen.getByLabelText("Find in the output"), { target: { value: "needle" } });
    await waitFor(() => expect(document.querySelector("mark")?.closest("div")?.textContent).toBe("78needle 77"), { timeout: 3_000 });
    expect(screen.getByRole("status").textContent).toMatch(/^1 of 3/);
  });

  it("says how far a long search is, shows what it has found, stops, and continues", async () => {
    const source = sourceOf(long);
    const search = source.search.bind(source);
    const asked: number[] = [];
    let held = true;
    source.search = async (q, at, signal) => {
      asked.push(at.offset ?? 0);
      const half = Math.floor(long.length / 2);
      if ((at.offset ?? 0) >= half && held) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
      const res = await search(q, { ...at, end: held ? half : at.end }, signal);
      return held ? Object.assign(res, { complete: false, nextOffset: BigInt(half) }) : res;
    };
    render(<LogView source={source} name="x.log" label="Output" />);
    await screen.findByText("line 300000");
    fireEvent.change(screen.getByLabelText("Find in the output"), { target: { value: "needle" } });
    await waitFor(() => expect(screen.getByRole("status").textContent).toMatch(/^1 of 2\+ · (49|50) % searched$/));
    fireEvent.click(await screen.findByRole("button", { name: "Stop search" }, { timeout: 3_000 }));
    await screen.findByRole("button", { name: "Continue search" });
    expect(screen.queryByRole("button", { name: "Stop search" })).toBeNull();
    held = false;
    fireEvent.click(screen.getByRole("button", { name: "Continue search" }));
    await waitFor(() => expect(screen.getByRole("status").textContent).toBe("1 of 3"));
    expect(new Set(asked).size, "nothing is searched twice").toBe(2);
  });

  it("finds, goes to the next and the one before, and lists only what matches", async () => {
    render(<LogView source={sourceOf(long)} name="x.log" label="Output" />);
    await screen.findByText("line 300000");
    fireEvent.change(screen.getByLabelText("Find in the output"), { target: { value: "needle" } });
    await waitFor(() => expect(screen.getByRole("status").textContent).toBe("1 of 3"));
    const marked = () => [...document.querySelectorAll("mark")].map((m) => m.closest("div")?.textContent);
    await waitFor(() => expect(marked()).toEqual(["78needle 77"]));
    fireEvent.click(screen.getByLabelText("Previous match"));
    await waitFor(() => expect(marked()).toEqual(["200078needle 200077"]));
    expect(screen.getByRole("status").textContent).toBe("3 of 3");
    fireEvent.click(screen.getByLabelText("Next match"));
    await waitFor(() => expect(marked()).toEqual(["78needle 77"]));
    fireEvent.click(screen.getByLabelText("Only matches"));
    await waitFor(() => expect(marked()).toEqual(["78needle 77", "100078needle 100077", "200078needle 200077"]));
    fireEvent.click(screen.getByLabelText("Show line 100078 in the log"));
    expect(await screen.findByText("line 100079")).toBeDefined();
  });

  it("opens at a line, and has links to lines", async () => {
    render(<LogView source={sourceOf(long)} name="x.log" label="Output" line={150_000} linkTo={(n) => `?line=${n}`} />);
    expect(await screen.findByText("line 150000")).toBeDefined();
    expect(screen.getByLabelText("Link to line 150000").getAttribute("href")).toBe("?line=150000");
  });
});
