import { Link } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { Literal, LiteralBlock } from "@/components/Literal";
import { duration, millis, Time } from "@/components/Time";
import { InboxState, type CallOutcome, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { StepState } from "@/gen/deckhand/v1/step_pb";
import { running, stateWord } from "./words";

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

// Outcome says what became of an item, and what came of its call, as it is now.
export function Outcome({ item, now }: { item: InboxItem; now: InboxItem | undefined }) {
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
  const outcome = now?.outcome ?? item.outcome;
  return (
    <section aria-label="What came of it" className="space-y-2 rounded-md border p-2.5">
      <p role="status" className="break-words">
        <span className="font-medium">{what}</span>
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
        {outcome && <Result of={outcome} />}
      </p>
      {outcome?.observation && (outcome.state === StepState.FAILED || (outcome.exitStatus ?? 0) !== 0) && (
        <LiteralBlock text={outcome.observation} label="Result" />
      )}
      {item.taskId && (
        <p>
          <Link to="/tasks/$task" params={{ task: item.taskId }} className="text-accent hover:underline">
            {item.stepNumber > 0 ? `See step ${item.stepNumber} of the task` : "See the task"}
          </Link>
        </p>
      )}
    </section>
  );
}

function Result({ of }: { of: CallOutcome }) {
  const [from, to] = [millis(of.startedAt), millis(of.finishedAt)];
  const parts = [
    of.exitStatus !== undefined ? `exit ${of.exitStatus}` : stateWord(of.state),
    from !== undefined && to !== undefined && !running(of.state) && of.state !== StepState.DENIED && of.state !== StepState.SKIPPED && `in ${duration(Math.max(0, to - from))}`,
    of.filesChanged > 0 && (of.filesChanged === 1 ? "1 file changed" : `${of.filesChanged} files changed`),
    of.errorCode && of.exitStatus === undefined && of.errorCode,
  ].filter(Boolean);
  const bad = of.state === StepState.FAILED || (of.exitStatus ?? 0) !== 0;
  return (
    <span className={bad ? "text-bad" : running(of.state) ? "text-info" : "text-dim"} data-testid="outcome">
      {" · "}
      {parts.join(" · ")}
    </span>
  );
}
