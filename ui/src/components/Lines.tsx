import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import type { ReactNode, RefObject } from "react";

// useLines windows a list whose rows have one height. box is what scrolls.
export function useLines(box: RefObject<HTMLDivElement | null>, count: number, height: number): Virtualizer<HTMLDivElement, Element> {
  return useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 10,
    // A first guess, so that rows are there at once and not only when the box was measured.
    initialRect: { width: 0, height: 600 },
  });
}

// Lines are the rows of such a list that are in sight, at their places.
export function Lines(props: { of: Virtualizer<HTMLDivElement, Element>; height: number; ordered?: boolean; row: (index: number) => ReactNode }) {
  const { of: virtual, height, row } = props;
  const [List, Item] = props.ordered ? (["ol", "li"] as const) : (["div", "div"] as const);
  return (
    <List style={{ height: virtual.getTotalSize(), position: "relative" }}>
      {virtual.getVirtualItems().map((item) => (
        <Item key={item.key} className="absolute inset-x-0" style={{ height, transform: `translateY(${item.start}px)` }}>
          {row(item.index)}
        </Item>
      ))}
    </List>
  );
}
