import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ArrowDown, ArrowUp, ChevronLeft } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { byToken } from "@/api/pages";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { useShortcut } from "@/components/shortcuts";
import { millis } from "@/components/Time";
import { InboxKind, InboxService, InboxState, type InboxCount, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { grouped } from "./alike";
import { Card } from "./Card";
import { Filters } from "./Filters";
import type { Guard } from "./guard";
import { Row } from "./Row";
import { isFiltered, requestOf, type InboxSearch } from "./search";
import { Snooze } from "./Snooze";
import { untilBack } from "./snoozes";
import { Together } from "./Together";
import { useSwipe } from "./useSwipe";

const route = getRouteApi("/shell/inbox");
const none: InboxItem[] = [];
const phone = matchMedia("(max-width: 639.98px)");
const noCounts: InboxCount[] = [];
// Items of no task come without an event of one.
const lookAgain = 60_000;

// InboxPage shows all items that a person has to answer, what expires first at the top;
// its filters are in the address. Keys: j and k go through them, the letters of the buttons
// answer, n opens the next one after an answer, x selects, Shift+A decides what is selected
// after one look.
export function InboxPage() {
  const search = route.useSearch();
  const { item: chosen } = search;
  const navigate = route.useNavigate();
  const request = useMemo(() => ({ ...requestOf({ ...search, item: undefined }), withTotal: true }), [search]);
  const pages = useInfiniteQuery(InboxService.method.listInbox, request, { ...byToken, refetchInterval: (q) => untilBack(millis(q.state.data?.pages[0]?.nextSnoozeEndsAt), Date.now(), lookAgain) });
  const items = useMemo(() => pages.data?.pages.flatMap((p) => p.items) ?? none, [pages.data]);
  const counts = pages.data?.pages[0]?.counts ?? noCounts;
  const groups = useMemo(() => grouped(items), [items]);
  // Calls that look alike stand behind the first of them.
  const order = useMemo(() => groups.flatMap((g) => g.items), [groups]);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [together, setTogether] = useState<readonly string[]>();
  const at = order.findIndex((i) => i.id === chosen);
  const set = (part: Partial<InboxSearch>) => void navigate({ search: (s) => ({ ...s, ...part }), replace: true });
  const open = (id: string | undefined) => {
    setTogether(undefined);
    set({ item: id });
  };
  // What is shown stays until the person goes on: the first item is pinned in the
  // address, and an answered one keeps its place although the list has lost it.
  const first = order[0]?.id;
  useEffect(() => {
    // On a phone the list comes first, and an item is a page of its own.
    if (!chosen && first && !phone.matches) void navigate({ search: (s) => ({ ...s, item: first }), replace: true });
  }, [chosen, first, navigate]);
  const place = useRef(0);
  if (at >= 0) place.current = at;
  const after = at >= 0 ? order[at + 1] : order[Math.min(place.current, order.length - 1)];
  const before = order[(at >= 0 ? at : Math.min(place.current, order.length)) - 1];
  const swipe = useSwipe(
    () => phone.matches && after && open(after.id),
    () => phone.matches && before && open(before.id),
  );
  const fresh = useFresh(items, chosen);
  const toggle = (ids: readonly string[]) =>
    setSelected((now) => {
      const then = new Set(now);
      const all = ids.every((id) => then.has(id));
      for (const id of ids) if (all) then.delete(id);
      else then.add(id);
      return then;
    });
  const selectable = (i: InboxItem | undefined) => i?.kind === InboxKind.APPROVAL && i.state === InboxState.OPEN;
  const current = order[at];
  const group = groups.find((g) => g.items.some((i) => i.id === chosen));
  const picked = order.filter((i) => selected.has(i.id) && selectable(i)).map((i) => i.id);
  const look = () => {
    if (picked.length > 0) setTogether(picked);
    else if (group && group.items.length > 1) setTogether(group.items.map((i) => i.id));
  };
  useShortcut("j", "Next item", "Inbox", () => after && open(after.id));
  useShortcut("k", "Previous item", "Inbox", () => before && open(before.id));
  useShortcut("x", "Select the item", "Inbox", () => current && selectable(current) && toggle([current.id]));
  useShortcut("A", "Decide what is selected, or the group, together", "Inbox", look);
  useEffect(() => {
    document.getElementById(`item-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const waiting = counts.reduce((n, c) => n + c.items, 0);
  const filtered = isFiltered(search);
  const clear = () => void navigate({ search: {} });
  return (
    <Page title={waiting > 0 && !search.all && !filtered ? `(${waiting}) Inbox` : "Inbox"} heading="Inbox" full>
      <div className="flex h-full min-h-0 flex-col">
        <div className={cx((chosen || together) && "max-sm:hidden")}>
          <Filters search={search} counts={counts} set={set} clear={clear} />
        </div>
        {pages.isPending ? (
          <div className="px-5">
            <Skeletons rows={6} className="h-14 w-full" />
          </div>
        ) : pages.error && !pages.data ? (
          <div className="px-5">
            <Problem error={pages.error} retry={() => void pages.refetch()} />
          </div>
        ) : !chosen && items.length === 0 ? (
          filtered ? (
            <Empty title="No items match these filters">
              <Button onClick={clear}>Clear filters</Button>
            </Empty>
          ) : (
            <Empty title="Inbox zero" command="deckhand inbox list">
              Approvals, questions, reviews and whatever stops work appear here.
            </Empty>
          )
        ) : (
          <div className="grid min-h-0 flex-1 grid-cols-[minmax(16rem,24rem)_minmax(0,1fr)] border-t max-lg:grid-cols-1 max-lg:grid-rows-[14rem_minmax(0,1fr)] max-sm:grid-rows-[minmax(0,1fr)]">
            <nav aria-label="Items" className={cx("min-h-0 overflow-y-auto border-r", (chosen || together) && "max-sm:hidden")} tabIndex={0}>
              <p role="status" className={cx("border-b px-4 py-1.5 text-xs text-accent", fresh === 0 && "hidden")}>
                {fresh > 0 && `${fresh} new since you opened this item`}
              </p>
              {picked.length > 0 && (
                <div className="flex flex-wrap items-center gap-2 border-b bg-raised px-4 py-2">
                  <span className="flex-1">{picked.length} selected</span>
                  <Button small onClick={look}>
                    Decide together
                  </Button>
                  <Button small onClick={() => setSelected(new Set())}>
                    Clear
                  </Button>
                </div>
              )}
              {items.length === 0 && <p className="px-4 py-2 text-dim">{filtered ? "No items match these filters" : "Inbox zero"}</p>}
              <ul>
                {groups.flatMap((g) => {
                  const unfolded = g.items.some((i) => i.id === chosen);
                  const shown = unfolded ? g.items : [g.first];
                  const size = Math.max(g.items.length, g.first.alikeCount);
                  return shown.map((i) => (
                    <Row
                      key={i.id}
                      item={i}
                      current={i.id === chosen}
                      group={i === g.first && size > 1 ? size : undefined}
                      inGroup={i !== g.first}
                      selected={unfolded ? selected.has(i.id) : g.items.every((x) => selected.has(x.id))}
                      select={() => toggle(unfolded ? [i.id] : g.items.map((x) => x.id))}
                      open={() => open(i.id)}
                    />
                  ));
                })}
              </ul>
              <div className="px-3 pb-3">
                <More small pages={pages} shown={items.length}>Load more</More>
              </div>
            </nav>
            <section aria-label="Item" className={cx("min-h-0 overflow-y-auto p-5 pb-0 max-sm:px-4 max-sm:pt-0", !chosen && !together && "max-sm:hidden")} tabIndex={0} {...swipe}>
              {(chosen || together) && (
                <div className="flex items-center gap-1 sm:hidden">
                  <Button look="quiet" className="-ml-2 min-h-11" onClick={() => open(undefined)}>
                    <ChevronLeft aria-hidden className="size-4" /> All items
                  </Button>
                  <span className="flex-1" />
                  <Button look="quiet" className="min-h-11 min-w-11" aria-label="Previous item" disabled={!before} onClick={() => before && open(before.id)}>
                    <ArrowUp aria-hidden className="size-4" />
                  </Button>
                  <Button look="quiet" className="min-h-11 min-w-11" aria-label="Next item" disabled={!after} onClick={() => after && open(after.id)}>
                    <ArrowDown aria-hidden className="size-4" />
                  </Button>
                </div>
              )}
              {together ? (
                <Together
                  key={together.join()}
                  ids={together}
                  open={open}
                  close={() => {
                    setTogether(undefined);
                    setSelected(new Set());
                  }}
                />
              ) : (
                chosen && (
                  <Card
                    key={chosen}
                    itemId={chosen}
                    first={order[at]}
                    keys
                    above={(item) => (
                      <>
                        <Heading item={item} onSnoozed={() => open(after?.id ?? before?.id)} />
                        {group && group.items.length > 1 && (
                          <p className="flex flex-wrap items-center gap-3">
                            <span className="text-dim">{Math.max(group.items.length, item.alikeCount)} open calls look like this.</span>
                            <Button small onClick={look}>
                              Decide {group.items.length} together
                            </Button>
                          </p>
                        )}
                      </>
                    )}
                    below={(guard) => after && <Next guard={guard} left={items.filter((i) => i.state === InboxState.OPEN && i.id !== chosen).length} go={() => open(after.id)} />}
                  />
                )
              )}
            </section>
          </div>
        )}
      </div>
    </Page>
  );
}

function Heading({ item, onSnoozed }: { item: InboxItem; onSnoozed: () => void }) {
  return (
    <header className="flex flex-wrap items-start gap-x-3">
      <p className="flex min-w-0 flex-1 flex-wrap items-center gap-x-3 text-xs text-dim">
        {item.taskId && (
          <Link to="/tasks/$task" params={{ task: item.taskId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
            <Literal text={item.taskTitle || item.taskId} />
          </Link>
        )}
        {item.agentId && (
          <Link to="/agents/$agent" params={{ agent: item.agentId }} className="inline-flex min-h-6 items-center hover:underline">
            {item.agentName}
          </Link>
        )}
        {item.submittedBy && <span>submitted by {item.submittedBy}</span>}
        <Id value={item.id} />
      </p>
      <Snooze item={item} onSnoozed={onSnoozed} />
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

// useFresh counts the open items that were asked since one was opened. Other pages of the
// list are older.
function useFresh(items: InboxItem[], chosen: string | undefined): number {
  const [seen, setSeen] = useState<{ chosen?: string; ids: ReadonlySet<string>; until: number }>();
  if (items.length > 0 && (!seen || seen.chosen !== chosen))
    setSeen({ chosen, ids: new Set(items.map((i) => i.id)), until: Math.max(...items.map((i) => millis(i.askedAt) ?? 0)) });
  return seen ? items.filter((i) => i.state === InboxState.OPEN && !seen.ids.has(i.id) && (millis(i.askedAt) ?? Infinity) > seen.until).length : 0;
}
