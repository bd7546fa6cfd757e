import { render, screen } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { More } from "./More";

const pages = (total?: { count: number; atLeast: boolean }, hasNextPage = true) => ({
  hasNextPage,
  isFetchingNextPage: false,
  fetchNextPage: vi.fn(),
  data: { pages: [{ total }, {}] },
});

describe("More", () => {
  it("says how many rows there are where the hub has counted them", () => {
    const { rerender } = render(<More pages={pages({ count: 312, atLeast: false })} shown={50}>Older</More>);
    expect(screen.getByRole("status").textContent).toBe("1–50 of 312");
    rerender(<More pages={pages({ count: 10_000, atLeast: true })} shown={1_000}>Older</More>);
    expect(screen.getByRole("status").textContent).toBe("1–1,000 of more than 10,000");
    rerender(<More pages={pages()} shown={50}>Older</More>);
    expect(screen.queryByRole("status")).toBeNull();
    expect(screen.getByRole("button", { name: "Older" })).toBeTruthy();
  });

  it("is nothing on the last page", () => {
    const { container } = render(<More pages={pages({ count: 3, atLeast: false }, false)} shown={3}>Older</More>);
    expect(container.textContent).toBe("");
  });
});
