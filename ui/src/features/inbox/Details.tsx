import { Badge, type Tone } from "@/components/Badge";
import { inert } from "@/components/inert";
import { Time } from "@/components/Time";
import { Code } from "@/features/task/tools";
import { Changes } from "@/features/workspace/Changes";
import { InboxKind, type InboxItem, type InboxReview } from "@/gen/deckhand/v1/inbox_pb";
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
  [InboxKind.REVIEW]: "Review",
  [InboxKind.ESCALATION]: "Escalated",
};

export const kindWord = (k: InboxKind) => kinds[k] ?? "Of a newer hub";

// heading is one line about an item.
export function heading(item: InboxItem): string {
  if (item.question?.text) return inert(item.question.text);
  if (item.review || item.kind === InboxKind.ESCALATION) return inert(item.taskTitle || item.taskId);
  const first = inert(item.preview).split("\n")[0];
  return first ? `${item.tool}: ${first}` : item.tool || item.taskTitle;
}

const expiry: Record<string, string> = {
  reject: "it is rejected",
  stop: "the task ends",
  default: "the default is taken",
};

// Review is what a run in review mode did, and what is held of it.
function Review(props: { item: InboxItem; review: InboxReview }) {
  const { held, hosts, paths, files, summary } = props.review;
  return (
    <div className="space-y-3">
      {summary && <p className="break-words whitespace-pre-wrap">{inert(summary)}</p>}
      <section aria-label="Held calls" className="space-y-2">
        <h3 className="font-medium">{held.length === 0 ? "Nothing is held" : held.length === 1 ? "One call is held" : `${held.length} calls are held`}</h3>
        {held.length > 0 && <p className="text-xs text-dim">Each is made once when you accept the work, and never if you do not.</p>}
        {held.map((h) => (
          <Code key={h.stepId} text={h.preview} label={`Step ${h.number}, ${h.tool}`} />
        ))}
      </section>
      <section aria-label="Changed files" className="space-y-2">
        <h3 className="font-medium">{files === 0 ? "No file was changed" : files === 1 ? "One file was changed" : `${files} files were changed`}</h3>
        {paths.length < files && <p className="text-xs text-dim">The first {paths.length} of them, by step:</p>}
        {files > 0 && <Changes taskId={props.item.taskId} />}
      </section>
      {hosts.length > 0 && (
        <section aria-label="Hosts" className="space-y-1">
          <h3 className="font-medium">Where its commands connected to</h3>
          <ul className="text-xs">
            {hosts.map((h) => (
              <li key={h.host} className="font-mono break-all">
                {inert(h.host)}: {String(h.requests)} requests, {String(h.sentBytes)} bytes sent, {String(h.receivedBytes)} received
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

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
      {item.review && <Review item={item} review={item.review} />}
      {item.preview && !item.question && !item.review && <Preview item={item} />}
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
