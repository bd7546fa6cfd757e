import { expect, it } from "vitest";
import { composed, heldOf, keyOf, pointOf } from "./input";

const none = { altKey: false, ctrlKey: false, metaKey: false, shiftKey: false };

it("names the keys that go to the page", () => {
  expect(keyOf({ ...none, key: "a" })).toBe("a");
  expect(keyOf({ ...none, shiftKey: true, key: "A" })).toBe("A");
  expect(keyOf({ ...none, key: "+" })).toBe("+");
  expect(keyOf({ ...none, ctrlKey: true, key: "a" })).toBe("Control+a");
  expect(keyOf({ ...none, shiftKey: true, key: "Tab" })).toBe("Shift+Tab");
  expect(keyOf({ ...none, key: "F5" })).toBe("F5");
});

it("sends characters of AltGr and Option alone", () => {
  expect(keyOf({ ...none, ctrlKey: true, altKey: true, key: "@", getModifierState: (m) => m === "AltGraph" })).toBe("@");
  expect(keyOf({ ...none, altKey: true, key: "@" })).toBe("@");
  expect(keyOf({ ...none, altKey: true, key: "a" })).toBe("Alt+a");
  expect(composed("Dead")).toBe(true);
  expect(composed("a")).toBe(false);
});

it("keeps what is only held, what is pasted, and the way out", () => {
  for (const key of ["Shift", "Control", "Dead", "Process", "F13"]) expect(keyOf({ ...none, key })).toBeUndefined();
  expect(keyOf({ ...none, ctrlKey: true, key: "v" })).toBeUndefined();
  expect(keyOf({ ...none, shiftKey: true, key: "Escape" })).toBeUndefined();
});

it("finds the point of the page in a picture of another size", () => {
  const box = { left: 10, top: 20, width: 640, height: 400 };
  const page = { width: 1280, height: 800 };
  expect(pointOf({ clientX: 330, clientY: 120 }, box, page)).toEqual({ x: 640, y: 200 });
  expect(pointOf({ clientX: 0, clientY: 900 }, box, page)).toEqual({ x: 0, y: 800 });
});

it("sums the keys that are held as the protocol of the browser does", () => {
  expect(heldOf({ ...none, altKey: true, shiftKey: true })).toBe(9);
});
