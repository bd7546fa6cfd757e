import { create, equals } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { useRef, useState, type ReactNode } from "react";
import { Badge, type Tone } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { ReadingContext, useReading } from "@/components/reading";
import { Skeletons } from "@/components/Skeleton";
import { InboxItemSchema, InboxKind, InboxService, InboxState, InboxStopSchema, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { Answer } from "./Answer";
import { useWholeArguments } from "./arguments";
import { kindWord } from "./Details";
import { EscalationBody } from "./Escalation";
import { useGuard, type Guard } from "./guard";
import { Outcome } from "./Outcome";
import { Before, DangerBand, Deadline, Part, Read, Wants, Where, WhyAsked } from "./Parts";
import { QuestionBody } from "./Question";
import { ReviewBody } from "./Review";
import { useSeen, type Seen } from "./seen";
import { StopAnswer } from "./stops/StopAnswer";
import { StopDetails } from "./stops/StopDetails";
import { Thing } from "./Thing";
import { UnknownBody } from "./Unknown";
import { approvalOf, running } from "./words";
import { nothing } from "./without";

// Card shows one item and takes its answer. What it shows stays as it is until
// the person asks for something else: what comes of the item meanwhile is told
// beside it. Every kind of item has the same parts in the same order: what is
// asked, the thing itself, its risk, why the person is asked, why the agent wants
// it, what was decided before, where it runs, what follows, and the answers; after
// the answer, what came of it.
export function Card(props: {
  itemId: string;
  // The item as it is known already. One of a list lacks most of its card, and is
  // not shown.
  first?: InboxItem;
  keys?: boolean;
  // What stands above the item.
  above?: (item: InboxItem) => ReactNode;
  // What stands below it when it is answered.
  below?: (guard: Guard) => ReactNode;
}) {
  const [answered, setAnswered] = useState<InboxItem>();
  const query = useQuery(
    InboxService.method.getInboxItem,
    { itemId: props.itemId },
    {
      // What comes of a call that was approved a moment ago.
      refetchInterval: (q) => {
        const item = q.state.data?.item;
        return item && item.state !== InboxState.OPEN && item.outcome && running(item.outcome.state) ? 1_000 : false;
      },
    },
  );
  const latest = query.data?.item;
  const [shown, setShown] = useState(props.first?.context ? props.first : undefined);
  const [looks, setLooks] = useState(0);
  const [refused, setRefused] = useState(false);
  const card = useRef<HTMLDivElement>(null);
  const guard = useGuard(card);
  const unseen = useSeen(card);
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
              latest={latest}
              changed={Boolean(changed)}
              guard={guard}
              unseen={unseen}
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
  latest: InboxItem | undefined;
  changed: boolean;
  guard: Guard;
  unseen: () => Seen[];
  pending: ReturnType<typeof useReading>["pending"];
  keys?: boolean;
  onAnswered: (item: InboxItem) => void;
  onRefused: () => Promise<void>;
  below?: (guard: Guard) => ReactNode;
}) {
  const { item } = props;
  const whole = useWholeArguments(item);
  const of = whole.decision;
  // The comments on a review become the text of "Ask for changes".
  const [comments, setComments] = useState("");
  const [without, setWithout] = useState(nothing);
  return (
    <>
      <What item={item} />
      {!item.stop && <DangerBand item={item} of={of} />}
      <Part name="The call" hidden>
        {item.kind === InboxKind.QUESTION ? (
          <QuestionBody item={item} />
        ) : item.kind === InboxKind.REVIEW ? (
          <ReviewBody item={item} onComments={setComments} without={without} onWithout={setWithout} />
        ) : item.kind === InboxKind.ESCALATION ? (
          <EscalationBody item={item} />
        ) : item.stop ? (
          <StopDetails item={item} stop={item.stop} />
        ) : (
          <div className="space-y-3">
            {item.kind === InboxKind.UNKNOWN && <UnknownBody item={item} />}
            <Thing item={item} whole={whole} />
            {of && <Read of={of} />}
          </div>
        )}
      </Part>
      {/* What stopped work says why by itself, and is no call of an agent. */}
      {!item.stop && (
        <>
          <WhyAsked item={item} of={of} />
          <Wants item={item} />
          <Before item={item} />
          {/* A question runs nowhere. */}
          <Where item={item} of={item.kind === InboxKind.QUESTION ? undefined : of} />
        </>
      )}
      <div data-answers className="sticky bottom-0 z-10 space-y-2 border bg-panel px-3 py-2 max-sm:-mx-4 max-sm:border-x-0 max-sm:border-b-0 max-sm:px-4 sm:rounded-t-md">
        {props.over ? (
          <>
            <Outcome item={props.over} now={props.latest} />
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
          <>
            <Deadline item={item} />
            <Answer
              item={item}
              args={whole.args}
              decision={of}
              changed={props.changed}
              guard={props.guard}
              unseen={props.unseen}
              pending={props.pending}
              comments={comments}
              without={without}
              keys={props.keys}
              onAnswered={props.onAnswered}
              onRefused={props.onRefused}
            />
          </>
        )}
      </div>
    </>
  );
}

// What is the sentence that says what is asked, and the risk of it in a word.
function What({ item }: { item: InboxItem }) {
  const [word, tone] = riskOf(item);
  return (
    <header className="space-y-1">
      <h2 className="text-base font-semibold break-words">
        <Literal text={item.stop?.title || item.sentence || item.title || item.tool || item.taskTitle} />
      </h2>
      <p className="flex flex-wrap items-center gap-2">
        <Badge tone="info">{kindWord(item.kind)}</Badge>
        {word && <Badge tone={tone}>{word}</Badge>}
        {item.tool && <Literal className="font-mono text-xs text-dim" text={item.tool} />}
      </p>
    </header>
  );
}

// riskOf is the risk of the call itself, not of its tool in general.
function riskOf(item: InboxItem): [string, Tone] {
  if (item.kind !== InboxKind.APPROVAL && item.kind !== InboxKind.UNKNOWN) return ["", "neutral"];
  const kinds = [...new Set(item.decision?.dangers.map((d) => d.kind.replaceAll("_", " ")))];
  if (kinds.length > 0) return [`dangerous: ${kinds.join(", ")}`, "bad"];
  return approvalOf(item.tool, item.category, item.decision) ? ["dangerous tool", "warn"] : ["", "neutral"];
}

// differs reports whether an item asks for something else than it did. That the
// workspace was recorded after the item was shown is no change: the hub knows.
function differs(a: InboxItem, b: InboxItem): boolean {
  const asked = (i: InboxItem) =>
    create(InboxItemSchema, {
      arguments: i.arguments,
      decision: i.decision,
      longArguments: i.longArguments,
      question: i.question,
      review: i.review,
      changes: i.changes,
      changesUnknown: i.changesUnknown,
      stop: i.stop && create(InboxStopSchema, { ...i.stop, waitingTasks: 0 }),
    });
  return !equals(InboxItemSchema, asked(a), asked(b));
}
