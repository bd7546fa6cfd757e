import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark" | "system";

const key = "deckhand.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function read(): Theme {
  try {
    const stored = localStorage.getItem(key);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system";
  }
}

let theme = read();

function show() {
  const shown = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = shown;
  for (const fn of listeners) fn();
}

// startTheme shows the theme that this browser keeps, and follows the system's.
export function startTheme() {
  dark.addEventListener("change", show);
  // Another tab has changed it.
  addEventListener("storage", (e) => {
    if (e.key !== key) return;
    theme = read();
    show();
  });
  show();
}

export function setTheme(next: Theme) {
  theme = next;
  try {
    if (next === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, next);
  } catch {
    // A browser that keeps nothing shows it until the page is closed.
  }
  show();
}

const subscribe = (fn: () => void) => {
  listeners.add(fn);
  return () => listeners.delete(fn);
};

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

// useDark says whether the page is dark now.
export function useDark(): boolean {
  return useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme === "dark");
}
