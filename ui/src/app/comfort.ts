import { useSyncExternalStore } from "react";

// Comfort is how this browser shows the console to its person.
export type Comfort = {
  density: "comfortable" | "compact";
  // In percent of the usual size.
  text: 100 | 112 | 125 | 150;
  // Keys without Control do something. Some people speak or tremble them by accident.
  shortcuts: boolean;
  // Times are dates and not "4 min ago".
  exactTimes: boolean;
  // An answer in the inbox can be taken back for a moment, before it is sent.
  undo: boolean;
  // Both texts of a diff in one column, or side by side where there is room.
  diff: "unified" | "split";
};

const key = "deckhand.comfort";
const usual: Comfort = { density: "comfortable", text: 100, shortcuts: true, exactTimes: false, undo: true, diff: "unified" };
const listeners = new Set<() => void>();

function read(): Comfort {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<Comfort>;
    return {
      density: stored.density === "compact" ? "compact" : "comfortable",
      text: ([112, 125, 150] as const).find((n) => n === stored.text) ?? 100,
      shortcuts: stored.shortcuts !== false,
      exactTimes: stored.exactTimes === true,
      undo: stored.undo !== false,
      diff: stored.diff === "split" ? "split" : "unified",
    };
  } catch {
    return usual;
  }
}

let comfort = read();

// startComfort shows the page as this browser keeps it.
export function startComfort() {
  const root = document.documentElement;
  root.dataset.density = comfort.density;
  root.style.setProperty("--text", `${comfort.text}%`);
}

export function setComfort(change: Partial<Comfort>) {
  comfort = { ...comfort, ...change };
  try {
    localStorage.setItem(key, JSON.stringify(comfort));
  } catch {
    // A browser that keeps nothing shows it until the page is closed.
  }
  startComfort();
  for (const fn of listeners) fn();
}

const subscribe = (fn: () => void) => {
  listeners.add(fn);
  return () => listeners.delete(fn);
};

export const getComfort = () => comfort;

export function useComfort(): Comfort {
  return useSyncExternalStore(subscribe, getComfort);
}
