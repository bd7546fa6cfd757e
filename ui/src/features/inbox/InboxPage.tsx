import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { useShortcut } from "@/components/shortcuts";
import { Time } from "@/components/Time";
import { InboxService, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { Answer } from "./Answer";
import { Details, heading, kindWord } from "./Details";

const route = getRouteApi("/shell/inbox");
const none: InboxItem[] = [];
const every = [InboxState.OPEN, InboxState.ANSWERED, InboxState.EXPIRED, InboxState.WITHDRAWN];

// InboxPage is all that waits for a person. Keys: j and k go through it, the
// letters of the buttons answer.
export function InboxPage() {
  const { item: chosen, all } = route.useSearch();
  const navigate = route.useNavigate();
  const pages = useInfiniteQuery(
    InboxService.method.listInbox,
    { states: all ? every : [], pageSize: 50, pageToken: "" },
    { pageParamKey: "pageToken", getNextPageParam: (page) => page.nextPageToken || undefined },
  );
  const items = useMemo(() => pages.data?.pages.flatMap((p) => p.items) ?? none, [pages.data]);
  const at = items.findIndex((i) => i.id === chosen);
  const item = items[at] ?? items[0];
  const open = (id: string | undefined) => void navigate({ search: (s) => ({ ...s, item: id }), replace: true });
  const move = (by: number) => {
    const next = items[Math.min(Math.max((at < 0 ? 0 : at) + by, 0), items.length - 1)];
    if (next) open(next.id);
  };
  useShortcut("j", "The next one", "Inbox", () => move(1));
  useShortcut("k", "The one before", "Inbox", () => move(-1));
  useEffect(() => {
    document.getElementById(`item-${item?.id}`)?.scrollIntoView({ block: "nearest" });
  }, [item?.id]);
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
            onChange={(e) => void navigate({ search: { all: e.target.checked || undefined } })}
          />
          Answered ones too
        </label>
      }
    >
      {pages.isPending ? (
        <div className="px-5">
          <Skeletons rows={6} className="h-14 w-full" />
        </div>
      ) : pages.error ? (
        <div className="px-5">
          <Problem error={pages.error} retry={() => void pages.refetch()} />
        </div>
      ) : !item ? (
        <Empty title="Nothing waits for you" command="deckhand inbox list">
          Approvals, questions, reviews, escalated tasks and calls with an unknown outcome stand here, and on the command line.
        </Empty>
      ) : (
        <div className="grid h-full min-h-0 grid-cols-[minmax(16rem,24rem)_minmax(0,1fr)] border-t max-lg:grid-cols-1 max-lg:grid-rows-[14rem_minmax(0,1fr)]">
          <nav aria-label="Items" className="min-h-0 overflow-y-auto border-r" tabIndex={0}>
            <ul>
              {items.map((i) => (
                <li key={i.id} id={`item-${i.id}`}>
                  <button
                    type="button"
                    aria-current={i.id === item.id ? "true" : undefined}
                    onClick={() => open(i.id)}
                    className={cx("w-full space-y-0.5 border-b px-4 py-2 text-left hover:bg-raised", i.id === item.id && "bg-raised")}
                  >
                    <span className="flex items-center gap-2">
                      <span className="min-w-0 flex-1 truncate font-medium">{heading(i)}</span>
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
                  Older ones
                </Button>
              </div>
            )}
          </nav>
          <section aria-label={heading(item)} className="min-h-0 space-y-4 overflow-y-auto p-5" tabIndex={0}>
            <header className="space-y-1">
              <h2 className="text-base font-semibold break-words">{heading(item)}</h2>
              <p className="flex flex-wrap items-center gap-x-3 text-xs text-dim">
                <Link to="/tasks/$task" params={{ task: item.taskId }} className="inline-flex min-h-6 items-center text-accent hover:underline">
                  {item.taskTitle || item.taskId}
                </Link>
                <span>{item.agentName}</span>
                <span>submitted by {item.submittedBy}</span>
                <Id value={item.id} />
              </p>
            </header>
            <Details item={item} />
            {item.state === InboxState.OPEN ? (
              <Answer key={item.id} item={item} keys />
            ) : (
              <p>
                {item.answeredBy ? `${item.answeredBy} answered ${item.answer}` : "Nobody answered"}
                {item.reply && `: ${item.reply}`}
                {item.reason && ` (${item.reason})`} <Time at={item.answeredAt} none="" />
              </p>
            )}
          </section>
        </div>
      )}
    </Page>
  );
}
