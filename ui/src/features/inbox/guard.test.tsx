import { act, fireEvent, render, screen } from "@testing-library/react";
import { useRef, useState } from "react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { guardTime, useGuard } from "./guard";

function Guarded(props: { run: () => void }) {
  const card = useRef<HTMLDivElement>(null);
  const guard = useGuard(card);
  const [words, setWords] = useState("first");
  const [clock, setClock] = useState(0);
  return (
    <>
      <div ref={card} data-testid="card">
        <p>{words}</p>
        <time>{clock}</time>
        <div data-answers>
          <button type="button" disabled={!guard.ready} onClick={() => guard.isReady() && props.run()}>
            Approve
          </button>
        </div>
      </div>
      <button type="button" onClick={() => setWords("second")}>
        change
      </button>
      <button type="button" onClick={() => setClock(clock + 1)}>
        tick
      </button>
    </>
  );
}

// Times are the test's own: nothing here depends on how fast the machine is.
describe("the guard of a card", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  const pass = (ms: number) => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));
  const approve = () => screen.getByRole<HTMLButtonElement>("button", { name: "Approve" });

  it("refuses answers when the card has just come up, and after each change of it", async () => {
    const run = vi.fn();
    render(<Guarded run={run} />);
    await pass(guardTime - 1);
    expect(approve().disabled).toBe(true);
    await pass(1);
    fireEvent.click(approve());
    expect(run).toHaveBeenCalledTimes(1);

    await act(async () => void fireEvent.click(screen.getByRole("button", { name: "change" })));
    expect(approve().disabled).toBe(true);
    await pass(guardTime - 1);
    expect(approve().disabled).toBe(true);
    await pass(1);
    expect(approve().disabled).toBe(false);
  });

  it("goes by what is said, and not by clocks", async () => {
    render(<Guarded run={vi.fn()} />);
    await pass(guardTime);
    await act(async () => void fireEvent.click(screen.getByRole("button", { name: "tick" })));
    expect(approve().disabled).toBe(false);
  });

  it("takes no click on a card that moved under the pointer", async () => {
    const run = vi.fn();
    render(<Guarded run={run} />);
    await pass(guardTime);
    const card = screen.getByTestId("card");
    const place = vi.spyOn(card, "getBoundingClientRect").mockReturnValue(new DOMRect(0, 100, 10, 10));
    fireEvent.pointerMove(approve());
    place.mockReturnValue(new DOMRect(0, 40, 10, 10));
    fireEvent.click(approve(), { detail: 1 });
    expect(run).not.toHaveBeenCalled();
    await pass(guardTime);
    fireEvent.click(approve(), { detail: 1 });
    expect(run).toHaveBeenCalledTimes(1);
  });
});
