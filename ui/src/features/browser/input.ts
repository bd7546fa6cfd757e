// What a person does with mouse and keys, as the hub takes it.

type Held = { altKey: boolean; ctrlKey: boolean; metaKey: boolean; shiftKey: boolean };

// heldOf is the sum of the keys that are held.
export const heldOf = (e: Held) => (e.altKey ? 1 : 0) + (e.ctrlKey ? 2 : 0) + (e.metaKey ? 4 : 0) + (e.shiftKey ? 8 : 0);

// pointOf returns the point of the page that is under the mouse.
export function pointOf(e: { clientX: number; clientY: number }, box: { left: number; top: number; width: number; height: number }, page: { width: number; height: number }) {
  const part = (at: number, from: number, size: number, whole: number) => (size > 0 ? Math.min(Math.max(((at - from) / size) * whole, 0), whole) : 0);
  return { x: part(e.clientX, box.left, box.width, page.width), y: part(e.clientY, box.top, box.height, page.height) };
}

const named = new Set(["Enter", "Tab", "Escape", "Backspace", "Delete", "Insert", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);

// keyOf returns the name of a key that goes to the page, and undefined for one that does not: keys
// that are only held, the paste, which comes as text, and Shift+Escape, which leaves the page for
// those who use no mouse. A character that a layout has on AltGr, or on Option of a Mac, goes alone.
export function keyOf(e: Held & { key: string; getModifierState?: (name: "AltGraph") => boolean }): string | undefined {
  const paste = (e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "v";
  const character = [...e.key].length === 1;
  if (paste || (e.key === "Escape" && e.shiftKey)) return undefined;
  if (!character && !named.has(e.key) && !/^F([1-9]|1[0-2])$/.test(e.key)) return undefined;
  const made = character && (e.getModifierState?.("AltGraph") || (e.altKey && !e.metaKey && !/^[a-z0-9 ]$/i.test(e.key)));
  if (made) return e.key;
  const held = [e.ctrlKey && "Control", e.altKey && "Alt", e.metaKey && "Meta", e.shiftKey && !character && "Shift"].filter(Boolean);
  return [...held, e.key].join("+");
}

// composed reports whether a key is part of a character that only a text field composes.
export const composed = (key: string) => key === "Dead" || key === "Process";
