import { getComfort } from "@/app/comfort";
import { createContext, useContext, useEffect, useRef, useSyncExternalStore, type ReactNode } from "react";

// Shortcut is a key, or two pressed one after another ("g f"), and what it does.
// "mod" is Control, or Command on a Mac.
export type Shortcut = { keys: string; what: string; group: string; run: (e: KeyboardEvent) => void };

const within = 900; // milliseconds between the keys of a sequence

export class Shortcuts {
  private all: Shortcut[] = [];
  private listeners = new Set<() => void>();
  private first = "";
  private timer: ReturnType<typeof setTimeout> | undefined;

  add(s: Shortcut): () => void {
    this.all = [...this.all, s];
    this.tell();
    return () => {
      this.all = this.all.filter((x) => x !== s);
      this.tell();
    };
  }

  list = () => this.all;

  subscribe = (fn: () => void) => {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  };

  private tell() {
    for (const fn of this.listeners) fn();
  }

  press = (e: KeyboardEvent) => {
    if (e.defaultPrevented || e.isComposing) return;
    const mod = e.ctrlKey || e.metaKey;
    const key = (mod ? "mod+" : "") + (e.altKey ? "alt+" : "") + e.key.replace("Escape", "esc");
    if (!mod && !e.altKey && !getComfort().shortcuts && key !== "esc") return;
    if (!mod && (typing(e.target) || document.querySelector("[role=dialog], [role=menu], [role=alertdialog]"))) return;
    // The one added last goes first: a page before the shell.
    const find = (keys: string) => this.all.findLast((s) => s.keys === keys);
    const hit = (this.first && find(`${this.first} ${key}`)) || find(key);
    clearTimeout(this.timer);
    if (hit) {
      this.first = "";
      e.preventDefault();
      hit.run(e);
      return;
    }
    this.first = this.all.some((s) => s.keys.startsWith(`${key} `)) ? key : "";
    this.timer = setTimeout(() => (this.first = ""), within);
  };
}

// typing says that keys belong to what has the focus.
function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range"].includes(target.type)) ||
    target.closest("[data-keys=own]") !== null
  );
}

const ShortcutsContext = createContext(new Shortcuts());

export function ShortcutsProvider(props: { children: ReactNode }) {
  const shortcuts = useContext(ShortcutsContext);
  useEffect(() => {
    addEventListener("keydown", shortcuts.press);
    return () => removeEventListener("keydown", shortcuts.press);
  }, [shortcuts]);
  return props.children;
}

// useShortcut has keys do something while the component is mounted. They show in
// the sheet behind "?".
export function useShortcut(keys: string, what: string, group: string, run: (e: KeyboardEvent) => void, on = true) {
  const shortcuts = useContext(ShortcutsContext);
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (!on) return undefined;
    return shortcuts.add({ keys, what, group, run: (e) => latest.current(e) });
  }, [shortcuts, keys, what, group, on]);
}

// useShortcutList returns the shortcuts that are active now.
export function useShortcutList(): Shortcut[] {
  const shortcuts = useContext(ShortcutsContext);
  return useSyncExternalStore(shortcuts.subscribe, shortcuts.list);
}
