import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ChevronLeft } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { byToken } from "@/api/pages";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { useShortcut } from "@/components/shortcuts";
import { Time } from "@/components/Time";
import { InboxService, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { Card } from "./Card";
import { heading, kindWord } from "./Details";
import type { Guard } from "./guard";

const route = getRouteApi("/shell/inbox");
const none: InboxItem[] = [];
const phone = matchMedia("(max-width: 639.98px)");
const every = [InboxState.OPEN, InboxState.ANSWERED, InboxState.EXPIRED, InboxState.WITHDRAWN];

// InboxPage shows all items that a person has to answer. Keys: j and k go through
// them, the letters of the buttons answer, n opens the next one after an answer.
export function InboxPage() {
  const { item: chosen, all } = route.useSearch();
  const navigate = route.useNavigate();
  const pages = useInfiniteQuery(
    InboxService.method.listInbox,
    { states: all ? every : [], pageSize: 50, pageToken: "" },
    byToken,
  );
  const items = useMemo(() => pages.data?.pages.flatMap((p) => p.items) ?? none, [pages.data]);
  const at = items.findIndex((i) => i.id === chosen);
  const open = (id: string | undefined) => void navigate({ search: (s) => ({ ...s, item: id }), replace: true });
  // What is shown stays until the person goes on: the first item is pinned in the
  // address, and an answered one keeps its place although the list has lost it.
  const first = items[0]?.id;
  useEffect(() => {
    // On a phone the list comes first, and an item is a page of its own.
    if (!chosen && first && !phone.matches) void navigate({ search: (s) => ({ ...s, item: first }), replace: true });
  }, [chosen, first, navigate]);
  const place = useRef(0);
  if (at >= 0) place.current = at;
  const after = at >= 0 ? items[at + 1] : items[Math.min(place.current, items.length - 1)];
  const before = items[(at >= 0 ? at : Math.min(place.current, items.length)) - 1];
  const fresh = useFresh(items, chosen);
  useShortcut("j", "Next item", "Inbox", () => after && open(after.id));
  useShortcut("k", "Previous item", "Inbox", () => before && open(before.id));
  useEffect(() => {
    document.getElementById(`item-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <Page
      title="Inbox"
      full
      actions={
        <label className="flex items-center gap-2 text-sm">
          <input
            type="checkbox"
            className="size-4 accent-accent"
            checked={Boolean(all)}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, all: e.target.checked || undefined }) })}
          />
          Show answered
        </label>
      }
    >
      {pages.isPending ? (
        <div className="px-5">
          <Skeletons rows={6} className="h-14 w-full" />
        </div>
      ) : pages.error && !pages.data ? (
        <div className="px-5">
          <Problem error={pages.error} retry={() => void pages.refetch()} />
        </div>
      ) : !chosen && items.length === 0 ? (
        <Empty title="Inbox zero" command="deckhand inbox list">
          Approvals, questions and reviews appear here.
        </Empty>
      ) : (
        <div className="grid h-full min-h-0 grid-cols-[minmax(16rem,24rem)_minmax(0,1fr)] border-t max-lg:grid-cols-1 max-lg:grid-rows-[14rem_minmax(0,1fr)] max-sm:grid-rows-[minmax(0,1fr)]">
          <nav aria-label="Items" className={cx("min-h-0 overflow-y-auto border-r", chosen && "max-sm:hidden")} tabIndex={0}>
            <p role="status" className={cx("border-b px-4 py-1.5 text-xs text-accent", fresh === 0 && "hidden")}>
              {fresh > 0 && `${fresh} new since you opened this item`}
            </p>
            {items.length === 0 && <p className="px-4 py-2 text-dim">Inbox zero</p>}
            <ul>
              {items.map((i) => (
                <li key={i.id} id={`item-${i.id}`}>
                  <button
                    type="button"
                    aria-current={i.id === chosen ? "true" : undefined}
                    onClick={() => open(i.id)}
                    className={cx("w-full space-y-0.5 border-b px-4 py-2 text-left hover:bg-raised", i.id === chosen && "bg-raised")}
                  >
                    <span className="flex items-center gap-2">
                      <Literal className="min-w-0 flex-1 truncate font-medium" text={heading(i)} />
                      {i.state !== InboxState.OPEN && <Badge>{i.answer || InboxState[i.state].toLowerCase()}</Badge>}
                    </span>
                    <span className="flex gap-2 text-xs text-dim">
                      <span className="truncate">
                        {kindWord(i.kind)} · {i.agentName}
                      </span>
                      <span className="flex-1" />
                      <Time at={i.askedAt} />
                    </span>
                  </button>
                </li>
              ))}
            </ul>
            {pages.hasNextPage && (
              <div className="p-3">
                <Button small busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                  Load older
                </Button>
              </div>
            )}
          </nav>
          <section aria-label="Item" className={cx("min-h-0 overflow-y-auto p-5 max-sm:px-4 max-sm:pt-0 max-sm:pb-0", !chosen && "max-sm:hidden")} tabIndex={0}>
            {chosen && (
              <Button look="quiet" className="-ml-2 sm:hidden" onClick={() => open(undefined)}>
                <ChevronLeft aria-hidden className="size-4" /> All items
              </Button>
            )}
            {chosen && (
              <Card
                key={chosen}
                itemId={chosen}
                first={items[at]}
                keys
                above={(item) => <Heading item={item} />}
                below={(guard) => after && <Next guard={guard} left={items.filter((i) => i.state === InboxState.OPEN && i.id !== chosen).length} go={() => open(after.id)} />}
              />
            )}
          </section>
        </div>
      )}
    </Page>
  );
}

function Heading({ item }: { item: InboxItem }) {
  return (
    <header className="space-y-1">
      <p className="flex flex-wrap items-center gap-x-3 text-xs text-dim">
        <Link to="/tasks/$task" params={{ task: item.taskId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
          <Literal text={item.taskTitle || item.taskId} />
        </Link>
        <span>{item.agentName}</span>
        <span>submitted by {item.submittedBy}</span>
        <Id value={item.id} />
      </p>
    </header>
  );
}

// Next is the button that opens the next item.
function Next(props: { guard: Guard; left: number; go: () => void }) {
  useShortcut("n", "Next open item", "Inbox", () => props.guard.isReady() && props.go());
  return (
    <Button disabled={!props.guard.ready} onClick={props.go}>
      Next ({props.left} left)
    </Button>
  );
}

// useFresh counts the open items that came since one was opened.
function useFresh(items: InboxItem[], chosen: string | undefined): number {
  const [seen, setSeen] = useState<{ chosen?: string; ids: ReadonlySet<string> }>();
  if (items.length > 0 && (!seen || seen.chosen !== chosen)) setSeen({ chosen, ids: new Set(items.map((i) => i.id)) });
  const newest = items.findIndex((i) => seen?.ids.has(i.id));
  // Older pages come at the end of the list, new items at its beginning.
  return seen ? items.slice(0, newest < 0 ? items.length : newest).filter((i) => i.state === InboxState.OPEN).length : 0;
}
