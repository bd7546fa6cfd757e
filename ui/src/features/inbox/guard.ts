import { useCallback, useEffect, useRef, useState, type RefObject } from "react";

// How long answers are refused after anything of the card has changed, in
// milliseconds: what a person sees takes that long to be read as another thing.
export const guardTime = 700;

// What changes by itself and says nothing new.
const clocks = "time, [data-clock]";

// Guard says whether a card may be answered now.
export type Guard = {
  ready: boolean;
  // The same at this very moment, for what is called between two renderings.
  isReady: () => boolean;
  // Refuses answers again for a while.
  hold: () => void;
};

// useGuard refuses answers for a moment after a card came up and after each
// change of what is in it.
export function useGuard(card: RefObject<HTMLElement | null>): Guard {
  const [ready, setReady] = useState(false);
  const now = useRef(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const isReady = useCallback(() => now.current, []);
  const hold = useCallback(() => {
    const set = (to: boolean) => {
      now.current = to;
      setReady(to);
    };
    set(false);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set(true), guardTime);
  }, []);
  useEffect(() => {
    hold();
    const changes = new MutationObserver((all) => {
      if (all.some((m) => counts(m.target))) hold();
    });
    if (card.current) changes.observe(card.current, { childList: true, characterData: true, subtree: true });
    return () => {
      changes.disconnect();
      clearTimeout(timer.current);
    };
  }, [card, hold]);
  // A card that moves under the pointer: what is clicked is not what was aimed at.
  useEffect(() => {
    const el = card.current;
    if (!el) return undefined;
    let aimed: { x: number; y: number } | undefined;
    const aim = () => {
      const { x, y } = el.getBoundingClientRect();
      aimed = { x, y };
    };
    const check = (e: MouseEvent) => {
      if (e.detail === 0 || !aimed) return; // not of a pointer
      const { x, y } = el.getBoundingClientRect();
      if (Math.abs(x - aimed.x) <= 4 && Math.abs(y - aimed.y) <= 4) return;
      aim();
      if (e.target instanceof Element && e.target.closest("[data-answers]")) {
        e.preventDefault();
        e.stopPropagation();
        hold();
      }
    };
    el.addEventListener("pointermove", aim);
    el.addEventListener("pointerenter", aim);
    el.addEventListener("click", check, true);
    return () => {
      el.removeEventListener("pointermove", aim);
      el.removeEventListener("pointerenter", aim);
      el.removeEventListener("click", check, true);
    };
  }, [card, hold]);
  return { ready, isReady, hold };
}

function counts(target: Node): boolean {
  const el = target instanceof Element ? target : target.parentElement;
  return !el?.closest(clocks);
}
