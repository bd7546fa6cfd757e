import { useQuery } from "@connectrpc/connect-query";
import { useRef } from "react";
import { Problem } from "@/components/Problem";
import { Skeleton } from "@/components/Skeleton";
import { InboxService, InboxState } from "@/gen/deckhand/v1/inbox_pb";
import { Card } from "./Card";

// InboxInline shows something that waits for a person where it came up.
export function InboxInline(props: { itemId: string }) {
  const { data, error } = useQuery(InboxService.method.getInboxItem, { itemId: props.itemId });
  const item = data?.item;
  // One that was open here stays, with what became of it.
  const was = useRef(false);
  if (item?.state === InboxState.OPEN) was.current = true;
  if (error && !item) return <Problem error={error} />;
  if (!item) return <Skeleton className="h-16 w-full" />;
  if (!was.current) return null;
  return (
    <div className="rounded-md border border-warn p-2.5">
      <Card key={item.id} itemId={item.id} first={item} />
    </div>
  );
}
