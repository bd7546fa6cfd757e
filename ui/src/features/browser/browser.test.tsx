import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { createRoute } from "@tanstack/react-router";
import { act, fireEvent, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { WatchBrowserRequestSchema, WatchBrowserResponseSchema } from "@/gen/deckhand/v1/browser_pb";
import { showPage } from "@/test/page";
import { Browser } from "./Browser";

// Hub is the other end of the page's WebSocket: jsdom has no server.
class Hub extends EventTarget {
  static readonly OPEN = 1;
  static newest: Hub;
  readyState = 1;
  binaryType = "";
  heard: ReturnType<typeof fromBinary<typeof WatchBrowserRequestSchema>>["message"][] = [];
  onopen?: () => void;
  onmessage?: (e: { data: ArrayBuffer | string }) => void;
  onclose?: (e: { code: number }) => void;
  closed = false;
  constructor(readonly url: URL) {
    super();
    Hub.newest = this;
  }
  send(data: Uint8Array) {
    this.heard.push(fromBinary(WatchBrowserRequestSchema, data).message);
  }
  close() {
    this.closed = true;
  }
  say(message: MessageInitShape<typeof WatchBrowserResponseSchema>["message"]) {
    const data = toBinary(WatchBrowserResponseSchema, create(WatchBrowserResponseSchema, { message }));
    act(() => this.onmessage?.({ data: data.slice().buffer }));
  }
}

beforeEach(() => {
  vi.stubGlobal("WebSocket", Hub);
  vi.spyOn(URL, "createObjectURL").mockReturnValue("blob:frame");
  vi.spyOn(URL, "revokeObjectURL").mockReturnValue();
});
afterEach(() => vi.unstubAllGlobals());

const frame = { jpeg: new Uint8Array([1]), width: 1280, height: 800, url: "https://shop.example.com/\u202epay", title: "Pay" };

async function watched(role?: string) {
  const page = createRoute({ getParentRoute: () => shellRoute, path: "/b", component: () => <Browser taskId="task_1" /> });
  const shown = showPage("/b", [page], () => {}, role);
  await screen.findByText("No browser runs now.");
  const hub = Hub.newest;
  act(() => hub.onopen?.());
  hub.say({ case: "status", value: { running: true } });
  hub.say({ case: "frame", value: frame });
  return { hub, shown };
}

it("shows what the browser shows, as data, while the page is open", async () => {
  const { hub, shown } = await watched();
  expect(hub.url.pathname).toMatch(/\/browsers$/);
  expect(hub.heard).toMatchObject([{ case: "open", value: { taskId: "task_1" } }]);
  expect(screen.getByAltText("What the browser shows: Pay").getAttribute("src")).toBe("blob:frame");
  expect(screen.getByTestId("address").querySelector("[data-mark]")).not.toBeNull();
  fireEvent.mouseDown(screen.getByAltText("What the browser shows: Pay"));
  expect(hub.heard).toHaveLength(1);
  shown.unmount();
  expect(hub.closed).toBe(true);
});

it("sends mouse and keys while the browser is the person's, and gives it back", async () => {
  const { hub } = await watched();
  await userEvent.click(screen.getByRole("button", { name: "Take over" }));
  expect(hub.heard[1]?.case).toBe("takeOver");
  hub.say({ case: "status", value: { running: true, takenBy: "ada", yours: true } });
  const page = screen.getByRole("application");
  page.getBoundingClientRect = () => new DOMRect(0, 0, 640, 400);
  fireEvent.mouseDown(page, { clientX: 100, clientY: 50, detail: 1 });
  fireEvent.keyDown(page, { key: "a" });
  fireEvent.paste(page, { clipboardData: { getData: () => "pasted" } });
  expect(hub.heard.slice(2)).toMatchObject([
    { case: "input", value: { act: { case: "mouse", value: { action: 2, x: 200, y: 100, button: "left", clicks: 1 } } } },
    { case: "input", value: { act: { case: "key", value: "a" } } },
    { case: "input", value: { act: { case: "text", value: "pasted" } } },
  ]);
  const before = hub.heard.length;
  fireEvent.mouseDown(page, { clientX: 100, clientY: 50, button: 3 });
  fireEvent.paste(page, { clipboardData: { getData: () => "x".repeat(20_000) } });
  expect(screen.getByRole("alert").textContent).toContain("nothing was pasted");
  fireEvent.keyDown(page, { key: "Dead" });
  expect(screen.getByRole("alert").textContent).toContain("paste them");
  for (const deltaY of [10, 20, 30]) fireEvent.wheel(page, { deltaY });
  expect(hub.heard).toHaveLength(before);
  await vi.waitFor(() => expect(hub.heard.slice(before)).toMatchObject([{ value: { act: { case: "mouse", value: { action: 4, deltaY: 60 } } } }]));
  hub.say({ case: "frame", value: { ...frame, jpeg: new Uint8Array(), dialog: "confirm", message: "Really?" } });
  await userEvent.click(screen.getByRole("button", { name: "OK" }));
  expect(hub.heard.at(-1)).toMatchObject({ value: { act: { case: "dialog", value: { accept: true } } } });
  await userEvent.click(screen.getByRole("button", { name: "Give back" }));
  expect(hub.heard.at(-1)?.case).toBe("giveBack");
});

it("does not open a view again that is refused for good", async () => {
  const { hub } = await watched();
  vi.useFakeTimers();
  act(() => {
    hub.onmessage?.({ data: JSON.stringify({ message: "there is no task" }) });
    hub.onclose?.({ code: 1008 });
  });
  vi.advanceTimersByTime(60_000);
  vi.useRealTimers();
  expect(Hub.newest).toBe(hub);
});

it("says to everybody else who has it, and offers nothing to those who may only look", async () => {
  const { hub } = await watched("viewer");
  expect(screen.queryByRole("button", { name: "Take over" })).toBeNull();
  hub.say({ case: "status", value: { running: true, takenBy: "ada" } });
  expect(screen.getByRole("status").textContent).toContain("ada has taken over the browser");
  hub.say({ case: "status", value: { running: true, problem: "nothing was done for 3m0s" } });
  expect(screen.getByRole("alert").textContent).toBe("nothing was done for 3m0s");
});
