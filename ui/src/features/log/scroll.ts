import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";

export const lineHeight = 18;

// The highest element, in pixels: browsers stop at some 33 million, and count less
// exactly before.
const highest = 8_000_000;
// How long a person may rest before the scroll bar is set to where the log is, in
// milliseconds.
const rest = 150;

// Position is where a log of rows is looked at. Rows are as high as lineHeight; how
// far down the view is, in pixels, may be more than an element can be high: the scroll
// bar is scaled then, and a wheel or a key moves as many rows as it always does.
export type Position = { top: number; atEnd: boolean };

export function useScroll(box: RefObject<HTMLElement | null>, rows: number) {
  const [view, setView] = useState(400);
  const [top, setTop] = useState(0);
  const now = useRef({ top: 0, last: 0, timer: 0 as unknown as ReturnType<typeof setTimeout> });
  const height = rows * lineHeight;
  const spacer = Math.min(height, highest);
  const most = Math.max(0, height - view);
  const scrollable = Math.max(0, spacer - view);
  const scale = scrollable > 0 ? most / scrollable : 1;

  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const measured = () => el.clientHeight > 0 && setView(el.clientHeight);
    measured();
    const observer = new ResizeObserver(measured);
    observer.observe(el);
    return () => observer.disconnect();
  }, [box]);
  useEffect(() => () => clearTimeout(now.current.timer), []);

  // place sets the scroll bar to where the log is.
  const place = useCallback(() => {
    const el = box.current;
    if (!el) return;
    el.scrollTop = now.current.top / scale;
    now.current.last = el.scrollTop;
  }, [box, scale]);

  const goTo = useCallback(
    (to: number) => {
      now.current.top = Math.max(0, Math.min(most, to));
      setTop(now.current.top);
      place();
    },
    [most, place],
  );

  const onScroll = useCallback(() => {
    const el = box.current;
    const at = now.current;
    if (!el || el.scrollTop === at.last) return false;
    const by = el.scrollTop - at.last;
    const far = Math.abs(by) > 2 * view || scale === 1;
    at.last = el.scrollTop;
    at.top = Math.max(0, Math.min(most, far ? el.scrollTop * scale : at.top + by));
    setTop(at.top);
    clearTimeout(at.timer);
    if (scale !== 1) {
      // At an end of the bar, and not at one of the log.
      if (!far && (el.scrollTop <= 0 || el.scrollTop >= scrollable)) place();
      else at.timer = setTimeout(place, rest);
    }
    return by < 0;
  }, [box, most, place, scale, scrollable, view]);

  // The bar keeps its place in the log as that grows.
  useLayoutEffect(() => {
    if (now.current.top > most) goTo(most);
    else if (scale !== 1) place();
  }, [most, scale, goTo, place]);

  return { view, top: Math.min(top, most), most, spacer, goTo, onScroll };
}
