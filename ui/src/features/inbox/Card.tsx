import { create, equals } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { useRef, useState, type ReactNode } from "react";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { ReadingContext, useReading } from "@/components/reading";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { InboxItemSchema, InboxService, InboxState, InboxStopSchema, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { Answer } from "./Answer";
import { useWholeArguments } from "./arguments";
import { Details } from "./Details";
import { useGuard, type Guard } from "./guard";
import { StopAnswer } from "./stops/StopAnswer";

// Card shows one item and takes its answer. What it shows stays as it is until
// the person asks for something else: what comes of the item meanwhile is told
// beside it.
export function Card(props: {
  itemId: string;
  // The item as it is known already.
  first?: InboxItem;
  keys?: boolean;
  // What stands above the item.
  above?: (item: InboxItem) => ReactNode;
  // What stands below it when it is answered.
  below?: (guard: Guard) => ReactNode;
}) {
  const query = useQuery(InboxService.method.getInboxItem, { itemId: props.itemId });
  const latest = query.data?.item;
  // A list leaves out what answers a stop would apply.
  const [shown, setShown] = useState(props.first?.stop ? undefined : props.first);
  const [looks, setLooks] = useState(0);
  const [answered, setAnswered] = useState<InboxItem>();
  const [refused, setRefused] = useState(false);
  const card = useRef<HTMLDivElement>(null);
  const guard = useGuard(card);
  const reading = useReading();
  if (!shown && latest) setShown(latest);
  const over = answered ?? (latest && latest.state !== InboxState.OPEN ? latest : undefined);
  const changed = !over && (refused || (shown && latest && differs(shown, latest)));
  const lookAgain = async () => {
    const { data } = await query.refetch();
    if (!data?.item) return;
    setShown(data.item);
    setLooks((n) => n + 1);
    setRefused(false);
  };
  return (
    <div ref={card} className="space-y-4">
      <ReadingContext value={reading.report}>
        {shown ? (
          <>
            {props.above?.(shown)}
            {changed && (
              <div role="alert" className="flex flex-wrap items-center gap-3 rounded-md border border-warn p-2.5">
                <p className="min-w-0 flex-1">
                  This item has changed since it was shown to you. {refused && "Nothing was approved. "}Review the new version before you decide.
                </p>
                <Button small onClick={() => void lookAgain()}>
                  Show the new version
                </Button>
              </div>
            )}
            <Asked
              key={looks}
              item={shown}
              over={over}
              changed={Boolean(changed)}
              guard={guard}
              pending={reading.pending}
              keys={props.keys}
              onAnswered={setAnswered}
              // Whether it has changed, or was answered by somebody else, the item says.
              onRefused={async () => {
                const { data } = await query.refetch();
                if (data?.item?.state === InboxState.OPEN && data.item.shownDigest !== shown.shownDigest) setRefused(true);
              }}
              below={props.below}
            />
          </>
        ) : query.error ? (
          <Problem error={query.error} retry={() => void query.refetch()} />
        ) : (
          <Skeletons rows={4} />
        )}
      </ReadingContext>
    </div>
  );
}

function Asked(props: {
  item: InboxItem;
  over: InboxItem | undefined;
  changed: boolean;
  guard: Guard;
  pending: ReturnType<typeof useReading>["pending"];
  keys?: boolean;
  onAnswered: (item: InboxItem) => void;
  onRefused: () => Promise<void>;
  below?: (guard: Guard) => ReactNode;
}) {
  const whole = useWholeArguments(props.item);
  return (
    <>
      <Details item={props.item} whole={whole} />
      <div data-answers className="space-y-2">
        {props.over ? (
          <>
            <Outcome item={props.over} />
            {props.below?.(props.guard)}
          </>
        ) : props.item.stop ? (
          <StopAnswer
            item={props.item}
            stop={props.item.stop}
            changed={props.changed}
            guard={props.guard}
            pending={props.pending}
            onAnswered={props.onAnswered}
            onRefused={props.onRefused}
          />
        ) : (
          <Answer
            item={props.item}
            args={whole.args}
            changed={props.changed}
            guard={props.guard}
            pending={props.pending}
            keys={props.keys}
            onAnswered={props.onAnswered}
            onRefused={props.onRefused}
          />
        )}
      </div>
    </>
  );
}

const verdicts: Record<string, string> = {
  approve: "Approved",
  reject: "Rejected",
  reply: "Answered",
  retry: "Retried",
  skip: "Skipped",
  succeeded: "Recorded as succeeded",
  failed: "Recorded as failed",
  suggest: "Answered with an alternative",
  replan: "Answered with a new plan",
  clarify: "Answered with a question",
  accept: "Accepted",
  changes: "Sent back for changes",
  close: "Closed",
  raise: "Raised",
  allow: "Allowed",
  resume: "Resumed",
  dismiss: "Dismissed",
};

// Outcome says what became of an item.
function Outcome({ item }: { item: InboxItem }) {
  const session = useSession();
  const by = item.answeredBy === session.userName ? "you" : item.answeredBy;
  const what =
    item.state === InboxState.WITHDRAWN
      ? item.stop
        ? "Withdrawn: the cause is gone"
        : "Withdrawn: the task has ended"
      : item.answeredBy
        ? `${verdicts[item.answer] ?? item.answer} by ${by}`
        : "Expired without an answer";
  return (
    <p role="status" className="break-words">
      {what}
      {item.reply && (
        <>
          : <Literal text={item.reply} />
        </>
      )}
      {item.reason && (
        <>
          {" "}
          (<Literal text={item.reason} />)
        </>
      )}{" "}
      <Time at={item.answeredAt} none="" />
    </p>
  );
}

// differs reports whether an item asks for something else than it did. That the
// workspace was recorded after the item was shown is no change: the hub knows.
function differs(a: InboxItem, b: InboxItem): boolean {
  const asked = (i: InboxItem) =>
    create(InboxItemSchema, { arguments: i.arguments, decision: i.decision, longArguments: i.longArguments, question: i.question, review: i.review, stop: i.stop && create(InboxStopSchema, { ...i.stop, waitingTasks: 0 }) });
  return !equals(InboxItemSchema, asked(a), asked(b));
}
