import type { AnyRouter } from "@tanstack/react-router";

const prefix = "Not loaded: ";

// isNotLoaded reports whether an error is of a part of the console that could not
// be fetched.
export const isNotLoaded = (error: unknown): boolean => error instanceof Error && error.message.startsWith(prefix);

// keepShell has a part of the console that cannot be fetched fail as any other
// error does. The router would otherwise reload the whole console, which a hub that
// is away cannot serve either: the browser's error page would take its place.
export function keepShell() {
  addEventListener("vite:preloadError", (e) => {
    const error = (e as Event & { payload: Error }).payload;
    if (!isNotLoaded(error)) error.message = prefix + error.message;
  });
}

type Preloadable = { preload?: () => Promise<unknown> | undefined };

// The parts that pages load when they need them.
const parts = [
  () => import("./AccountMenu"),
  () => import("./Palette"),
  () => import("./Sheet"),
  () => import("@/components/Comparison"),
  () => import("@/features/persona/Editor"),
  () => import("@/features/terminal/Terminal"),
];

// fetchAll fetches all pages in idle time, one after another, so that each opens at
// once, and also while the hub is away.
export function fetchAll(router: AnyRouter): () => void {
  const pages = Object.values(router.routesById as Record<string, { options: { component?: unknown } }>).map(
    (route) => () => (route.options.component as Preloadable | undefined)?.preload?.(),
  );
  const waiting: (() => Promise<unknown> | undefined)[] = [...pages, ...parts];
  let stopped = false;
  const idle: (fn: () => void) => unknown =
    typeof requestIdleCallback === "function" ? (fn) => requestIdleCallback(fn, { timeout: 10_000 }) : (fn) => setTimeout(fn, 200);
  const next = async () => {
    const load = waiting.shift();
    if (!load || stopped) return;
    try {
      await load();
    } catch {
      // It is fetched when it is needed.
    }
    if (!stopped) idle(() => void next());
  };
  const begin = setTimeout(() => idle(() => void next()), 2_000);
  return () => {
    stopped = true;
    clearTimeout(begin);
  };
}
