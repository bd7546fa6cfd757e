import { Badge, type Tone } from "@/components/Badge";
import { inert } from "@/components/inert";
import { Time } from "@/components/Time";
import { Code } from "@/features/task/tools";
import { InboxKind, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { ToolCategory } from "@/gen/deckhand/v1/step_pb";
import { Preview } from "./Preview";

const risks: Record<ToolCategory, [string, Tone]> = {
  [ToolCategory.UNSPECIFIED]: ["", "neutral"],
  [ToolCategory.SAFE]: ["safe", "good"],
  [ToolCategory.MODERATE]: ["moderate", "warn"],
  [ToolCategory.DANGEROUS]: ["dangerous", "bad"],
};

const kinds: Record<number, string> = {
  [InboxKind.APPROVAL]: "Approval",
  [InboxKind.QUESTION]: "Question",
  [InboxKind.UNKNOWN]: "Unknown outcome",
};

export const kindWord = (k: InboxKind) => kinds[k] ?? "Review";

// heading is one line about an item.
export function heading(item: InboxItem): string {
  if (item.question?.text) return inert(item.question.text);
  const first = inert(item.preview).split("\n")[0];
  return first ? `${item.tool}: ${first}` : item.tool || item.taskTitle;
}

const expiry: Record<string, string> = {
  reject: "it is rejected",
  stop: "the task ends",
  default: "the default is taken",
};

// Details are what a person needs to decide: what would happen, the risk, why it
// was asked, and until when.
export function Details(props: { item: InboxItem }) {
  const { item } = props;
  const [risk, tone] = risks[item.category] ?? ["", "neutral"];
  return (
    <div className="space-y-2">
      <div className="flex flex-wrap items-center gap-2">
        <Badge tone="info">{kindWord(item.kind)}</Badge>
        {item.tool && <span className="font-mono text-xs">{item.tool}</span>}
        {risk && <Badge tone={tone}>{risk}</Badge>}
        <span className="flex-1" />
        {item.expiresAt && (
          <span className="text-xs text-dim">
            ends <Time at={item.expiresAt} />: {expiry[item.onExpiry] ?? item.onExpiry}
          </span>
        )}
      </div>
      {item.question?.text && <p className="font-medium break-words whitespace-pre-wrap">{inert(item.question.text)}</p>}
      {item.why && <p className="break-words text-dim">{inert(item.why)}</p>}
      {item.preview && !item.question && <Preview item={item} />}
      {item.evidence && <Code text={item.evidence} label="What is known" />}
      {item.reasoning && (
        <details>
          <summary className="text-xs text-dim">What the agent thought</summary>
          <p className="pt-1 break-words whitespace-pre-wrap">{inert(item.reasoning)}</p>
        </details>
      )}
    </div>
  );
}
