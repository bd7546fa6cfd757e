import { Badge, type Tone } from "@/components/Badge";
import { Literal, LiteralBlock, Prose } from "@/components/Literal";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { useProgress } from "@/components/reading";
import { Time } from "@/components/Time";
import { bytes } from "@/components/money";
import { StepArguments } from "@/features/task/tools";
import { Changes } from "@/features/workspace/Changes";
import { InboxKind, type InboxItem, type InboxReview } from "@/gen/deckhand/v1/inbox_pb";
import { ToolCategory } from "@/gen/deckhand/v1/step_pb";
import type { WholeArguments } from "./arguments";
import { DecisionRows } from "./Decision";
import { Preview } from "./Preview";
import { StopDetails } from "./stops/StopDetails";

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

const expiry: Record<string, string> = {
  reject: "rejected",
  stop: "task stops",
};

// Review shows the result of a run in review mode: its pending requests, changed
// files and network connections.
function Review(props: { item: InboxItem; review: InboxReview }) {
  const { deferred, hosts, paths, files, summary } = props.review;
  return (
    <div className="space-y-3">
      {summary && (
        <p>
          <Prose text={summary} />
        </p>
      )}
      <section aria-label="Pending requests" className="space-y-2">
        <h3 className="font-medium">{deferred.length === 0 ? "No pending requests" : deferred.length === 1 ? "1 pending request" : `${deferred.length} pending requests`}</h3>
        {deferred.length > 0 && <p className="text-xs text-dim">Sent once if you accept; never if you reject.</p>}
        {deferred.map((h) => (
          <section key={h.stepId} aria-label={line(`Step ${h.number}, ${h.tool}`)} className="space-y-1 rounded border p-2">
            <h4 className="text-xs text-dim">
              Step {h.number} · <Literal className="font-mono" text={h.tool} />
            </h4>
            <StepArguments taskId={props.item.taskId} stepId={h.stepId} />
          </section>
        ))}
      </section>
      <section aria-label="Changed files" className="space-y-2">
        <h3 className="font-medium">{files === 0 ? "No files changed" : files === 1 ? "1 file changed" : `${files} files changed`}</h3>
        {paths.length < files && <p className="text-xs text-dim">The first {paths.length} files, by step:</p>}
        {files > 0 && <Changes taskId={props.item.taskId} />}
      </section>
      {hosts.length > 0 && (
        <section aria-label="Hosts" className="space-y-1">
          <h3 className="font-medium">Network connections</h3>
          <ul className="text-xs">
            {hosts.map((h) => (
              <li key={h.host} className="font-mono break-all">
                <Literal text={h.host} />: {String(h.requests)} requests, {String(h.sentBytes)} bytes sent, {String(h.receivedBytes)} received
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

// Call shows the whole arguments of the call, as soon as they are loaded.
function Call(props: { item: InboxItem; whole: WholeArguments }) {
  const { item, whole } = props;
  useProgress("Arguments", whole.args ? 1 : 0, 1);
  if (whole.args) return <Preview item={item} args={whole.args} />;
  if (whole.error !== undefined) return <Problem error={whole.error} retry={whole.retry} />;
  return (
    <p role="status" className="text-dim">
      Reading the arguments: {bytes(whole.readBytes)} of {bytes(whole.sizeBytes)}
    </p>
  );
}

// Details shows what a person needs to decide: the call, its risk, why the hub
// asks, and when the item expires.
export function Details(props: { item: InboxItem; whole: WholeArguments }) {
  const { item } = props;
  // Work that stopped is no call, and has no risk of one.
  const [risk, tone]: [string, Tone] = item.stop ? ["", "neutral"] : (risks[item.category] ?? ["", "neutral"]);
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-2">
        <Badge tone="info">{kindWord(item.kind)}</Badge>
        {item.tool && <Literal className="font-mono text-xs" text={item.tool} />}
        {risk && <Badge tone={tone}>{risk}</Badge>}
        <span className="flex-1" />
        {item.expiresAt && (
          <span className="text-xs text-dim">
            Expires <Time at={item.expiresAt} /> → {item.onExpiry === "default" ? <Literal text={`answers "${item.question?.defaultAnswer ?? ""}"`} /> : (expiry[item.onExpiry] ?? item.onExpiry)}
          </span>
        )}
      </div>
      {item.question?.text && (
        <p className="font-medium">
          <Prose text={item.question.text} />
        </p>
      )}
      {item.stop && <StopDetails item={item} stop={item.stop} />}
      {item.why && !item.decision && !item.stop && (
        <p className="break-words text-dim">
          <Literal text={item.why} />
        </p>
      )}
      {item.review && <Review item={item} review={item.review} />}
      {item.stepId && !item.question && <Call item={item} whole={props.whole} />}
      {props.whole.decision && !item.question && <DecisionRows of={props.whole.decision} />}
      {item.evidence && (
        <section aria-label="Evidence" className="space-y-1">
          <h3 className="text-xs text-dim">Evidence</h3>
          <LiteralBlock text={item.evidence} label="Evidence" />
        </section>
      )}
      {item.reasoning && (
        <details>
          <summary className="text-xs text-dim">Agent's reasoning</summary>
          <p className="pt-1">
            <Prose text={item.reasoning} />
          </p>
        </details>
      )}
    </div>
  );
}
