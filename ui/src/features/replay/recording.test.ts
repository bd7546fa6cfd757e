import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { BrowserFrameSchema } from "@/gen/deckhand/v1/browser_pb";
import { add, shownAt, type Recorded } from "./recording";

const frame = (s: number, more: { jpeg?: Uint8Array; title?: string; problem?: string; ended?: boolean } = {}) =>
  create(BrowserFrameSchema, { time: { seconds: BigInt(s), nanos: 0 }, url: "http://localhost/", ...more } as never);
const jpeg = (n: number) => new Uint8Array([n]);

describe("a recording", () => {
  const frames: Recorded[] = [];
  for (const one of [
    frame(10, { problem: "no page is open" }),
    frame(20, { jpeg: jpeg(1), title: "One" }),
    frame(30, { title: "Two" }),
    frame(25, { jpeg: jpeg(2), title: "Three" }), // the clock went back
    frame(40, { problem: "the page crashed" }),
    frame(50, { jpeg: jpeg(3), title: "Four" }),
    frame(60, { problem: "the recording ends here", ended: true }),
  ]) {
    add(frames, one);
  }
  const at = (seconds: number) => {
    const shown = shownAt(frames, seconds * 1000);
    return shown && [shown.frame.problem || shown.frame.title, shown.picture?.jpeg[0]];
  };

  it("shows at each time the newest frame, with the newest picture until then", () => {
    expect(at(9)).toBeUndefined();
    expect(at(10)).toEqual(["no page is open", undefined]);
    expect(at(29)).toEqual(["One", 1]);
    expect(at(30)).toEqual(["Three", 2]);
    expect(at(39)).toEqual(["Three", 2]);
    expect(at(40)).toEqual(["the page crashed", undefined]);
    expect(at(50)).toEqual(["Four", 3]);
    expect(at(1e9)).toEqual(["the recording ends here", undefined]);
  });
});
