import { useSyncExternalStore } from "react";

// Mode is what becomes of what a person says to an agent: it acts on it, or only
// answers.
export type Mode = "agent" | "chat";

const key = "deckhand.mode";
const listeners = new Set<() => void>();

function read(): Mode {
  try {
    // What acts is never the default.
    return localStorage.getItem(key) === "agent" ? "agent" : "chat";
  } catch {
    return "chat";
  }
}

let mode = read();

// setMode keeps the mode in this browser. What runs goes on as it is.
export function setMode(next: Mode) {
  mode = next;
  try {
    localStorage.setItem(key, next);
  } catch {
    // A browser that keeps nothing has it until the page is closed.
  }
  for (const fn of listeners) fn();
}

addEventListener("storage", (e) => {
  if (e.key !== key) return;
  mode = read();
  for (const fn of listeners) fn();
});

const subscribe = (fn: () => void) => {
  listeners.add(fn);
  return () => listeners.delete(fn);
};

export const useMode = () => useSyncExternalStore(subscribe, () => mode);
