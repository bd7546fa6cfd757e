import { Badge } from "@/components/Badge";
import { cx } from "@/components/cx";
import { Literal } from "@/components/Literal";
import { millis, Time, useNow } from "@/components/Time";
import { InboxKind, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { ToolCategory } from "@/gen/deckhand/v1/step_pb";
import { heading, kindWord } from "./Details";

// Within this time of its end, an item says so in the warning colour.
const soon = 60_000;

// Row is one item of the list, or the first of a group of calls that look alike.
export function Row(props: {
  item: InboxItem;
  current: boolean;
  selected: boolean;
  // How many items the row stands for, when it is a group's.
  group?: number;
  unfolded?: boolean;
  // It stands below the row of its group.
  inGroup?: boolean;
  open: () => void;
  select: () => void;
}) {
  const { item } = props;
  return (
    <li id={`item-${item.id}`} className={cx("flex items-start border-b hover:bg-raised", props.current && "bg-raised", props.inGroup && "pl-4")}>
      {item.kind === InboxKind.APPROVAL && item.state === InboxState.OPEN ? (
        <label className="flex min-h-11 items-center pr-2 pl-3">
          <span className="sr-only">Select</span>
          <input type="checkbox" className="size-4 accent-accent" checked={props.selected} onChange={props.select} />
        </label>
      ) : (
        <span className="w-9 shrink-0" />
      )}
      <button type="button" aria-current={props.current ? "true" : undefined} onClick={props.open} className="min-w-0 flex-1 space-y-0.5 py-2 pr-4 text-left">
        <span className="flex items-center gap-2">
          <Literal className="min-w-0 flex-1 truncate font-medium" text={heading(item)} />
          {props.group !== undefined && <Badge tone="info">{props.group} like this</Badge>}
          <Risk item={item} />
          {item.state !== InboxState.OPEN && <Badge>{item.answer || InboxState[item.state].toLowerCase()}</Badge>}
        </span>
        <span className="flex gap-2 text-xs text-dim">
          <span className="truncate">
            {kindWord(item.kind)}
            {item.agentName && ` · ${item.agentName}`}
          </span>
          <span className="flex-1" />
          {item.state === InboxState.OPEN && item.expiresAt ? <Left item={item} /> : <Time at={item.state === InboxState.OPEN ? item.askedAt : item.answeredAt} />}
        </span>
      </button>
    </li>
  );
}

// Left says when an item expires.
function Left({ item }: { item: InboxItem }) {
  const now = useNow();
  const at = millis(item.expiresAt) ?? 0;
  return (
    <span className={cx(at - now < soon && "text-warn")}>
      expires <Time at={item.expiresAt} />
    </span>
  );
}

// Risk is the badge of a call: what was recognised in it, and not what its tool could do.
function Risk({ item }: { item: InboxItem }) {
  const dangers = [...new Set(item.decision?.dangers.map((d) => d.kind.replaceAll("_", " ")))];
  if (dangers.length > 0) return <Badge tone="bad">{dangers.slice(0, 2).join(", ")}</Badge>;
  if (item.kind === InboxKind.APPROVAL && item.category === ToolCategory.DANGEROUS) return <Badge tone="warn">dangerous tool</Badge>;
  return null;
}
