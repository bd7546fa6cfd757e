import { useCallback, useEffect, useRef, type RefObject } from "react";

// Seen is how many lines of a text a person has had on the screen.
export type Seen = { label: string; lines: number; of: number };

const texts = "pre[role=group], [data-testid=diff]";

// useSeen notes how far the texts of a card were scrolled, and returns a function
// that returns those whose end was never in sight.
export function useSeen(card: RefObject<HTMLElement | null>): () => Seen[] {
  const furthest = useRef(new WeakMap<Element, number>());
  const note = useCallback((el: Element) => {
    const bottom = Math.max(furthest.current.get(el) ?? 0, el.scrollTop + el.clientHeight);
    furthest.current.set(el, bottom);
    return bottom;
  }, []);
  useEffect(() => {
    const el = card.current;
    // Scrolling does not bubble.
    const scrolled = (e: Event) => e.target instanceof Element && e.target.matches(texts) && note(e.target);
    el?.addEventListener("scroll", scrolled, true);
    return () => el?.removeEventListener("scroll", scrolled, true);
  }, [card, note]);
  return useCallback(() => {
    const all = [...(card.current?.querySelectorAll(texts) ?? [])];
    return all.flatMap((el): Seen[] => {
      const share = note(el) / (el.scrollHeight || 1);
      const of = el.querySelectorAll(".literal-line, .diff-row").length;
      const lines = Math.floor(of * share);
      if (el.scrollHeight <= el.clientHeight + 4 || share >= 0.98 || lines >= of) return [];
      return [{ label: el.getAttribute("aria-label") ?? "Text", lines, of }];
    });
  }, [card, note]);
}
