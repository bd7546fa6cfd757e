import type { ReactNode } from "react";
import { Button } from "./Button";

// More is what an infinite query still has, behind a button; nothing when that is all.
export function More(props: {
  pages: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };
  children: ReactNode;
}) {
  if (!props.pages.hasNextPage) return null;
  return (
    <div className="pt-3">
      <Button busy={props.pages.isFetchingNextPage} onClick={() => void props.pages.fetchNextPage()}>
        {props.children}
      </Button>
    </div>
  );
}
