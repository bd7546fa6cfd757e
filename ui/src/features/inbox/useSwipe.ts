import { useRef, type TouchEvent } from "react";

// How far a finger goes for a swipe, in pixels, and how much farther along than across.
const least = 72;
const slope = 2;

// useSwipe calls left or right when a finger swipes that way. A finger that scrolls text
// sideways, selects it, or is one of several does not swipe.
export function useSwipe(left: () => void, right: () => void) {
  const begin = useRef<{ x: number; y: number } | undefined>(undefined);
  return {
    onTouchStart: (e: TouchEvent) => {
      const touch = e.touches[0];
      begin.current = e.touches.length === 1 && touch && !scrollsSideways(e.target) ? { x: touch.clientX, y: touch.clientY } : undefined;
    },
    onTouchEnd: (e: TouchEvent) => {
      const from = begin.current;
      begin.current = undefined;
      const touch = e.changedTouches[0];
      if (!from || !touch || getSelection()?.isCollapsed === false) return;
      const [x, y] = [touch.clientX - from.x, touch.clientY - from.y];
      if (Math.abs(x) < least || Math.abs(x) < slope * Math.abs(y)) return;
      if (x < 0) left();
      else right();
    },
    onTouchCancel: () => {
      begin.current = undefined;
    },
  };
}

function scrollsSideways(target: EventTarget): boolean {
  for (let el = target instanceof Element ? target : null; el; el = el.parentElement) {
    if (el.matches("input, textarea, select, [contenteditable=true]")) return true;
    if (el.scrollWidth > el.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(el).overflowX)) return true;
  }
  return false;
}
