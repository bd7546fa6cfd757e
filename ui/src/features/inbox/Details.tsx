import { InboxKind, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";

const kinds: Record<number, string> = {
  [InboxKind.APPROVAL]: "Approval",
  [InboxKind.QUESTION]: "Question",
  [InboxKind.UNKNOWN]: "Unknown outcome",
  [InboxKind.REVIEW]: "Review",
  [InboxKind.ESCALATION]: "Escalated",
  [InboxKind.LIMIT]: "Limit reached",
  [InboxKind.BUDGET]: "Budget used up",
  [InboxKind.SUSPENDED]: "Suspended agent",
  [InboxKind.EGRESS]: "Refused host",
  [InboxKind.PROVIDER]: "Provider",
  [InboxKind.CREDENTIAL]: "Credential",
};

export const kindWord = (k: InboxKind) => kinds[k] ?? "Unknown (update the console)";

// heading returns the title of an item, on one line, to be shown literally.
export function heading(item: InboxItem): string {
  if (item.question?.text) return item.question.text;
  if (item.review || item.kind === InboxKind.ESCALATION) return item.taskTitle || item.taskId;
  return item.title || item.tool || item.taskTitle;
}
