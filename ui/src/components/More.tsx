import type { ReactNode } from "react";
import type { Total } from "@/gen/deckhand/v1/page_pb";
import { Button } from "./Button";

type Pages = { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown; data?: { pages: readonly object[] } | undefined };

// More is what an infinite query still has, behind a button; nothing when that is all. With
// shown, how many rows there are on the page, it says of how many if the hub has counted them.
export function More(props: { pages: Pages; shown?: number; small?: boolean; children: ReactNode }) {
  if (!props.pages.hasNextPage) return null;
  return (
    <div className="flex flex-wrap items-center gap-3 pt-3">
      <Button small={props.small} busy={props.pages.isFetchingNextPage} onClick={() => void props.pages.fetchNextPage()}>
        {props.children}
      </Button>
      {props.shown !== undefined && <Shown pages={props.pages} shown={props.shown} />}
    </div>
  );
}

function Shown(props: { pages: Pages; shown: number }) {
  const { total } = (props.pages.data?.pages[0] ?? {}) as { total?: Total };
  if (!total) return null;
  return (
    <span role="status" className="text-xs text-dim">
      1–{props.shown.toLocaleString("en")} of {total.atLeast ? "more than " : ""}
      {total.count.toLocaleString("en")}
    </span>
  );
}
