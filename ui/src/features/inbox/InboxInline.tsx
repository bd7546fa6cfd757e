import { useQuery } from "@connectrpc/connect-query";
import { Problem } from "@/components/Problem";
import { Skeleton } from "@/components/Skeleton";
import { InboxService, InboxState } from "@/gen/deckhand/v1/inbox_pb";
import { Answer } from "./Answer";
import { Details } from "./Details";

// InboxInline shows something that waits for a person where it came up.
export function InboxInline(props: { itemId: string }) {
  const { data, error } = useQuery(InboxService.method.getInboxItem, { itemId: props.itemId });
  if (error) return <Problem error={error} />;
  const item = data?.item;
  if (!item) return <Skeleton className="h-16 w-full" />;
  if (item.state !== InboxState.OPEN) return null;
  return (
    <div className="space-y-2 rounded-md border border-warn p-2.5">
      <Details item={item} />
      <Answer item={item} />
    </div>
  );
}
