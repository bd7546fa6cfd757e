import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";
import { setComfort } from "@/app/comfort";

afterEach(cleanup);
// An answer is sent at once, except where a test is about taking it back.
setComfort({ undo: false });
// What a test waits for comes, however slow the machine is.
configure({ asyncUtilTimeout: 60_000 });

// What jsdom has not and components ask for.
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
};
globalThis.matchMedia ??= ((query: string) => ({
  matches: false,
  media: query,
  addEventListener() {},
  removeEventListener() {},
})) as unknown as typeof matchMedia;
