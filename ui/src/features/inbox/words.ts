import { duration } from "@/components/Time";
import { InboxKind, type CallDecision, type InboxItem, type InboxReview } from "@/gen/deckhand/v1/inbox_pb";
import { StepState, ToolCategory } from "@/gen/deckhand/v1/step_pb";
import { nothing, type Without } from "./without";

// What a person approves, by the kind of the danger.
const dangerous: Record<string, string> = {
  wipe: "deleting",
  device: "writing to a device",
  fork_bomb: "starting processes without end",
  remote_code: "running downloaded code",
  hidden_code: "running hidden code",
  credentials: "reading credentials",
  history: "reading the shell's history",
  logs: "deleting logs",
  reverse_shell: "opening a remote shell",
  persistence: "changing what runs later",
  permissions: "changing permissions",
  kernel: "changing the kernel",
  escape: "leaving the jail",
};

// approvalOf returns what is approved, for the button of a dangerous call; undefined
// for any other call.
export function approvalOf(tool: string, category: ToolCategory, of: CallDecision | undefined): string | undefined {
  const kind = of?.dangers[0]?.kind;
  if (kind !== undefined) return dangerous[kind] ?? "a dangerous call";
  if (tool === "file_delete") return "deleting";
  if (tool === "http_delete") return "sending DELETE";
  return category === ToolCategory.DANGEROUS ? "a dangerous call" : undefined;
}

const where = (of: CallDecision | undefined) => (of?.nodeName ? ` on ${of.nodeName}` : of?.nodeId ? " on its node" : " in the hub");

// follows says what each answer leads to.
export function follows(item: InboxItem, without = nothing): Record<string, string> {
  const again = item.decision?.reversible ? "It may happen twice, with the same result." : "It may happen twice.";
  const review = item.review;
  return {
    approve: `Runs once, now,${where(item.decision)}. Then the agent goes on.`,
    reject:
      item.kind === InboxKind.REVIEW
        ? "All file changes are undone, nothing is sent, and the task fails."
        : item.kind === InboxKind.QUESTION
          ? "The agent is told your reason and that nobody answers."
          : "Does not run. The agent is told your reason and goes on.",
    skip:
      item.kind === InboxKind.UNKNOWN
        ? "Not run again. The agent is told that nobody knows whether it happened."
        : "Does not run. The agent is told that it was left out.",
    some: "Writes the changes that you keep, and no other. The agent sees which.",
    edit: "Runs with what you change. The agent sees the change.",
    suggest: "Does not run. The agent is told another way.",
    replan: "Does not run. The agent goes on with your plan.",
    clarify: "Does not run. The agent answers you, then may ask again.",
    always: "Runs, and calls like it are not asked about for 30 days.",
    retry: item.kind === InboxKind.UNKNOWN ? `Runs once more. ${again}` : "The task goes on where it stopped.",
    succeeded: "Not run again. The agent is told that it happened.",
    failed: "Not run again. The agent is told that it did not happen.",
    accept: review ? `${kept(review, without)}. ${restored(without)}The task has succeeded.` : "",
    changes: "The agent goes on with your comments. Pending requests are dropped.",
    close: "The task fails. Its files stay.",
    decide: "The agent uses its own judgement.",
    stop: "The task is cancelled. Its files stay.",
  };
}

const stays = (files: number) => (files === 0 ? "No file changes" : files === 1 ? "1 file stays" : `${files} files stay`);
const sent = (n: number) => (n === 0 ? "nothing is sent" : n === 1 ? "1 request is sent" : `${n} requests are sent`);

// kept says what of a review's work stays and is sent.
function kept(review: InboxReview, without: Without): string {
  const [files, calls] = [without.paths.length, without.stepIds.length];
  const stay = files > 0 ? `${review.files - files} of ${review.files} files stay` : stays(review.files);
  return `${stay}, ${calls > 0 ? `${review.deferred.length - calls} of ${review.deferred.length} requests are sent` : sent(review.deferred.length)}`;
}

const restored = ({ paths }: Without) => (paths.length > 0 ? "The others are restored to what they were before the task. " : "");

// acceptWord is what the button that accepts a review says.
export function acceptWord(item: InboxItem, without = nothing): string {
  return item.review ? `Accept: ${kept(item.review, without).replace(/^No/, "no")}` : "Accept";
}

// unanswered says what happens if nobody answers.
export function unanswered(item: InboxItem): string {
  switch (item.onExpiry) {
    case "reject":
      return "the call is rejected";
    case "stop":
      return "the task stops";
    case "default":
      return item.question?.defaultAnswer ? `the answer is ${item.question.defaultAnswer}` : "the agent is told that nobody did";
  }
  return "it waits, however long it takes";
}

const states: Partial<Record<StepState, string>> = {
  [StepState.GRANTED]: "waiting to run",
  [StepState.STARTED]: "running",
  [StepState.SUCCEEDED]: "done",
  [StepState.FAILED]: "failed",
  [StepState.UNKNOWN]: "outcome unknown",
  [StepState.DENIED]: "not run",
  [StepState.SKIPPED]: "not run",
  [StepState.CANCELLED]: "cancelled",
  [StepState.WAITING]: "waiting for another approval",
  [StepState.DEFERRED]: "sent when the work is accepted",
};

export const stateWord = (s: StepState) => states[s] ?? "waiting";

// running reports whether something may still come of a step.
export const running = (s: StepState) => s === StepState.GRANTED || s === StepState.STARTED || s === StepState.WAITING;

// left is the time until something, in words.
export const left = (ms: number) => (ms <= 0 ? "now" : `in ${duration(ms < 1000 ? 1000 : ms)}`);

// nth is an ordinal number.
export function nth(n: number): string {
  const end = n % 100 >= 11 && n % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${end}`;
}
