import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { newQueryClient } from "@/api/query";
import { Restarting, restartingParts } from "./Restarting";

function show(answer: () => Response) {
  const asked = vi.fn();
  vi.stubGlobal("fetch", async (input: URL) => (asked(input.pathname), answer()));
  render(
    <QueryClientProvider client={newQueryClient()}>
      <Restarting lost={false} />
    </QueryClientProvider>,
  );
  return asked;
}

it("names the part that is started again", async () => {
  show(() => Response.json({ status: "down", parts: [{ name: "database", status: "down" }, { name: "PostgreSQL", status: "restarting" }] }));
  expect((await screen.findByRole("status")).textContent).toBe("PostgreSQL has ended and is being started again. What depends on it waits.");
});

it("says nothing more once the hub has gone as well", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  try {
    let up = true;
    const asked = show(() => {
      if (!up) throw new TypeError("Failed to fetch");
      return Response.json({ parts: [{ name: "PostgreSQL", status: "restarting" }] });
    });
    await screen.findByRole("status");
    up = false;
    await vi.advanceTimersByTimeAsync(16_000);
    expect(asked.mock.calls.length).toBeGreaterThan(1);
    await waitFor(() => expect(screen.queryByRole("status")).toBeNull());
  } finally {
    vi.useRealTimers();
  }
});

it.each([
  ["everything runs", () => Response.json({ status: "up", parts: [{ name: "database", status: "up" }] })],
  ["the hub does not say", () => new Response("no", { status: 500 })],
])("says nothing while %s", async (_, answer) => {
  const asked = show(answer);
  await waitFor(() => expect(asked).toHaveBeenCalledWith("/status"));
  expect(screen.queryByRole("status")).toBeNull();
});

it("reads no page of another kind", () => {
  for (const page of [undefined, null, "x", {}, { parts: {} }, { parts: [null, 1, { name: 1, status: "restarting" }] }]) expect(restartingParts(page)).toEqual([]);
});
