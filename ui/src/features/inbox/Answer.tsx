import { createClient } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { json, line, type ActObject } from "@/components/marks";
import { Problem } from "@/components/Problem";
import type { Progress } from "@/components/reading";
import { useShortcut } from "@/components/shortcuts";
import { may } from "@/features/session/queries";
import { InboxKind, InboxService, type AnswerInboxItemRequestSchema, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import type { Guard } from "./guard";

const inbox = createClient(InboxService, transport);
type Given = NonNullable<MessageInitShape<typeof AnswerInboxItemRequestSchema>["answer"]>;

// What a form asks for before the answer is sent.
type Form = "change" | "reject" | "always" | "suggest" | "replan" | "clarify" | "changes" | "retry" | undefined;

// Answers in words that the agent gets in the place of the call.
const inWords = {
  suggest: ["Suggest another way", "Another way"],
  replan: ["Replace its plan", "What to plan instead"],
  clarify: ["Ask about it", "Your question"],
  changes: ["Ask for changes", "What is to be changed"],
} as const;

// Answers that have the call made.
const runs: ReadonlySet<string> = new Set(["approve", "retry", "accept"]);

const inOwnWords = (form: Form): form is keyof typeof inWords => form !== undefined && form in inWords;

// Answer is how a person answers an open item. keys has the letters of the
// buttons do the same.
export function Answer(props: {
  item: InboxItem;
  // Its whole arguments, as soon as they are there.
  args: ActObject | undefined;
  // The item has changed since it was shown.
  changed: boolean;
  guard: Guard;
  // What has not been shown to its end.
  pending: Progress[];
  keys?: boolean;
  onAnswered: (item: InboxItem) => void;
  // The hub did not take the answer.
  onRefused: () => Promise<void>;
}) {
  const { item, args: asked, guard, pending } = props;
  const queries = useQueryClient();
  const session = useSession();
  const [form, setForm] = useState<Form>();
  const [reason, setReason] = useState("");
  const [reply, setReply] = useState(item.question?.defaultAnswer ?? "");
  // The arguments as they were changed; undefined for as they were asked.
  const [edited, setArgs] = useState<string>();
  const args = useMemo(() => (form === "change" ? (edited ?? json(asked ?? {})) : ""), [form, edited, asked]);
  const [scope, setScope] = useState("exact");
  const [everyAgent, setEveryAgent] = useState(false);
  const [words, setWords] = useState("");
  const [memory, setMemory] = useState("");
  const [provider, setProvider] = useState("");
  const [model, setModel] = useState("");
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<unknown>();

  const allowed = may(session, "basic");
  const give = async (name: string, answer: Given, words: string) => {
    if (busy || !guard.isReady()) return;
    if (runs.has(answer.case ?? "") && !whole) return;
    setBusy(name);
    setError(undefined);
    try {
      const res = await inbox.answerInboxItem({ itemId: item.id, reason: reason.trim(), answer, shownDigest: item.shownDigest });
      toast(words, { description: line(`${item.agentName} · ${item.tool || item.taskTitle}`) });
      setForm(undefined);
      if (res.item) props.onAnswered(res.item);
      void queries.invalidateQueries();
    } catch (e) {
      setError(e);
      await props.onRefused();
      void queries.invalidateQueries();
    } finally {
      setBusy("");
    }
  };
  const approval = item.kind === InboxKind.APPROVAL;
  const question = item.kind === InboxKind.QUESTION;
  const unknown = item.kind === InboxKind.UNKNOWN;
  const review = item.kind === InboxKind.REVIEW;
  const escalated = item.kind === InboxKind.ESCALATION;
  const accept = () => void give("accept", { case: "accept", value: {} }, "Accepted");
  const approve = () => void give("approve", { case: "approve", value: {} }, "Approved");
  const show = (f: Form) => () => guard.isReady() && setForm(f);
  // A key that is held down is one answer at most.
  const once = (run: () => unknown) => (e: KeyboardEvent) => !e.repeat && run();
  const on = Boolean(props.keys) && allowed;
  // What has the call made needs it to have been shown, whole and as it is now.
  const whole = asked !== undefined && pending.length === 0 && !props.changed;
  const still = !guard.ready;
  useShortcut("a", "Approve", "Inbox", once(approve), on && approval);
  useShortcut("c", "Approve with changed arguments", "Inbox", once(show("change")), on && approval);
  useShortcut("r", "Reject", "Inbox", once(show("reject")), on && (approval || question || review));
  useShortcut("a", "Accept the work", "Inbox", once(accept), on && review);
  useShortcut("c", "Ask for changes", "Inbox", once(show("changes")), on && review);
  useShortcut("t", "Retry the task", "Inbox", once(show("retry")), on && escalated);
  useShortcut("s", "Skip", "Inbox", once(() => void give("skip", { case: "skip", value: {} }, "Skipped")), on && (approval || unknown));

  if (!allowed) return <p className="text-dim">Your role may not answer this.</p>;

  const memoryProblem = memory.trim() && !(Number(memory) > 0 && Number(memory) <= 16384) ? "Give GiB above 0, such as 8." : undefined;
  let problem: string | undefined;
  if (form === "change") {
    try {
      const parsed: unknown = JSON.parse(args);
      if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) problem = "This must be a JSON object.";
    } catch (e) {
      problem = e instanceof Error ? e.message : String(e);
    }
  }
  const choices = item.question?.kind === "confirmation" ? ["yes", "no"] : (item.question?.choices ?? []);
  const send = (text: string) => void give("reply", { case: "reply", value: { text } }, "Answered");

  return (
    <div className="space-y-3">
      {question && choices.length > 0 && (
        <fieldset disabled={still} aria-label="Answer" className="flex flex-wrap gap-2">
          {choices.map((c) => (
            <Button key={c} look={c === item.question?.defaultAnswer ? "primary" : "plain"} busy={busy !== ""} onClick={() => send(c)}>
              <Literal text={c} />
            </Button>
          ))}
        </fieldset>
      )}
      {question && choices.length === 0 && (
        <form
          className="flex items-end gap-2"
          onSubmit={(e) => {
            e.preventDefault();
            if (reply.trim()) send(reply);
          }}
        >
          <div className="flex-1">
            <Field label="Your answer">
              <TextArea rows={2} value={reply} maxLength={20_000} onChange={(e) => setReply(e.target.value)} />
            </Field>
          </div>
          <Button type="submit" look="primary" disabled={!reply.trim() || still} busy={busy === "reply"}>
            Answer
          </Button>
        </form>
      )}
      {form === "change" && (
        <Field label="Arguments (JSON)" problem={problem} hint="The agent is told what you changed.">
          <TextArea className="font-mono text-xs" rows={8} value={args} spellCheck={false} autoFocus onChange={(e) => setArgs(e.target.value)} />
        </Field>
      )}
      {item.offer && form === undefined && may(session, "admin") && (
        <div role="note" className="flex flex-wrap items-center gap-3 rounded-md border bg-raised p-2.5">
          <p className="min-w-0 flex-1 break-words">
            {item.offer.approvals} calls like this were approved in 30 days, and none was rejected:{" "}
            <span className="font-mono text-xs"><Literal text={item.offer.shape} /></span>
          </p>
          <Button
            small
            disabled={still}
            onClick={() => {
              setScope("shape");
              setForm("always");
            }}
          >
            Ask no more about them
          </Button>
        </div>
      )}
      {form === "always" && (
        <div className="flex flex-wrap items-end gap-4">
          <Field label="From now on, for 30 days, allow">
            <Select value={scope} onChange={(e) => setScope(e.target.value)}>
              <option value="exact">this call, exactly</option>
              <option value="commands">these commands</option>
              {item.offer && <option value="shape">calls that look like it</option>}
              <option value="tool">every call of {line(item.tool)}</option>
            </Select>
          </Field>
          <label className="flex min-h-8 items-center gap-2">
            <input
              type="checkbox"
              className="size-4 accent-accent"
              checked={everyAgent}
              onChange={(e) => setEveryAgent(e.target.checked)}
            />
            for every agent
          </label>
        </div>
      )}
      {form === "retry" && (
        <div className="grid gap-3 sm:grid-cols-3">
          <Field label="Memory, in GiB" hint="As it has, where empty." problem={memoryProblem}>
            <Input inputMode="decimal" value={memory} onChange={(e) => setMemory(e.target.value)} />
          </Field>
          <Field label="Provider" hint="As it has, where empty.">
            <Input value={provider} maxLength={64} onChange={(e) => setProvider(e.target.value)} />
          </Field>
          <Field label="Model" problem={Boolean(provider.trim()) !== Boolean(model.trim()) ? "Provider and model go together." : undefined}>
            <Input value={model} maxLength={128} onChange={(e) => setModel(e.target.value)} />
          </Field>
        </div>
      )}
      {inOwnWords(form) && (
        <Field
          label={inWords[form][1]}
          hint={form === "changes" ? "The agent goes on with this; what was held is left out." : "The call is left out, and the agent gets this."}
        >
          <TextArea rows={3} value={words} maxLength={4000} autoFocus onChange={(e) => setWords(e.target.value)} />
        </Field>
      )}
      {form && form !== "changes" && (
        <Field label="Reason" hint={form === "reject" && review ? "The workspace is given back as it was, and the task ends." : form === "reject" ? "The agent sees it." : "For the record."}>
          <Input value={reason} maxLength={4000} autoFocus={form === "reject"} onChange={(e) => setReason(e.target.value)} />
        </Field>
      )}
      {!whole && !props.changed && (approval || unknown || review) && (
        <p role="note" className="text-warn">
          You can {review ? "accept" : unknown ? "retry" : "approve"} when all of it has been shown
          {pending.length > 0 && `: ${pending.map((p) => (p.of > 1 ? `${p.label}, ${p.shown} of ${p.of} parts` : p.label)).join("; ")}`}.
        </p>
      )}
      <fieldset disabled={still} className="flex flex-wrap gap-2">
        {form === "change" ? (
          <>
            <Button
              look="primary"
              disabled={problem !== undefined || !whole}
              busy={busy === "approve"}
              onClick={() => void give("approve", { case: "approve", value: { argumentsJson: args } }, "Approved with changes")}
            >
              Approve with these
            </Button>
            <Button onClick={() => setForm(undefined)}>Back</Button>
          </>
        ) : form === "retry" ? (
          <>
            <Button
              look="primary"
              disabled={memoryProblem !== undefined || Boolean(provider.trim()) !== Boolean(model.trim())}
              busy={busy === "retry"}
              onClick={() =>
                void give(
                  "retry",
                  {
                    case: "retry",
                    value:
                      memory.trim() || provider.trim()
                        ? {
                            override: {
                              memoryBytes: BigInt(Math.round(Number(memory.trim() || "0") * 2 ** 30)),
                              provider: provider.trim(),
                              model: model.trim(),
                            },
                          }
                        : {},
                  },
                  "It is tried again",
                )
              }
            >
              Retry the task
            </Button>
            <Button onClick={() => setForm(undefined)}>Back</Button>
          </>
        ) : inOwnWords(form) ? (
          <>
            <Button
              look="primary"
              disabled={!words.trim()}
              busy={busy === form}
              onClick={() =>
                void give(
                  form,
                  form === "clarify" ? { case: form, value: { question: words.trim() } } : { case: form, value: { text: words.trim() } },
                  "Answered",
                )
              }
            >
              {inWords[form][0]}
            </Button>
            <Button onClick={() => setForm(undefined)}>Back</Button>
          </>
        ) : form === "always" ? (
          <>
            <Button
              look="primary"
              disabled={!whole}
              busy={busy === "approve"}
              onClick={() =>
                void give("approve", { case: "approve", value: { always: { scope, everyAgent } } }, "Approved, and allowed from now on")
              }
            >
              Approve and allow
            </Button>
            <Button onClick={() => setForm(undefined)}>Back</Button>
          </>
        ) : form === "reject" ? (
          <>
            <Button look="danger" busy={busy === "reject"} onClick={() => void give("reject", { case: "reject", value: {} }, "Rejected")}>
              Reject
            </Button>
            <Button onClick={() => setForm(undefined)}>Back</Button>
          </>
        ) : (
          <>
            {approval && (
              <>
                <Button look="primary" disabled={!whole} busy={busy === "approve"} onClick={approve}>
                  Approve
                </Button>
                <Button disabled={!whole} onClick={() => setForm("change")}>Change and approve</Button>
                {(["suggest", "replan", "clarify"] as const).map((f) => (
                  <Button key={f} onClick={() => setForm(f)}>
                    {inWords[f][0]}
                  </Button>
                ))}
                {may(session, "admin") && <Button onClick={() => setForm("always")}>Always allow</Button>}
              </>
            )}
            {unknown && (
              <>
                <Button disabled={!whole} busy={busy === "retry"} onClick={() => void give("retry", { case: "retry", value: {} }, "It is run once more")}>
                  Run it again
                </Button>
                <Button
                  busy={busy === "succeeded"}
                  onClick={() => void give("succeeded", { case: "resolve", value: { succeeded: true } }, "Recorded as succeeded")}
                >
                  It succeeded
                </Button>
                <Button
                  busy={busy === "failed"}
                  onClick={() => void give("failed", { case: "resolve", value: { succeeded: false } }, "Recorded as failed")}
                >
                  It failed
                </Button>
              </>
            )}
            {(approval || unknown) && (
              <Button busy={busy === "skip"} onClick={() => void give("skip", { case: "skip", value: {} }, "Skipped")}>
                Skip
              </Button>
            )}
            {review && (
              <>
                <Button look="primary" disabled={!whole} busy={busy === "accept"} onClick={accept}>
                  Accept
                </Button>
                <Button onClick={() => setForm("changes")}>Ask for changes</Button>
              </>
            )}
            {escalated && (
              <>
                <Button look="primary" onClick={() => setForm("retry")}>
                  Retry
                </Button>
                <Button look="danger" busy={busy === "close"} onClick={() => void give("close", { case: "close", value: {} }, "Closed")}>
                  Close the task
                </Button>
              </>
            )}
            {(approval || question || review) && (
              <Button look="danger" onClick={() => setForm("reject")}>
                Reject
              </Button>
            )}
          </>
        )}
      </fieldset>
      {error !== undefined && !props.changed && <Problem error={error} />}
    </div>
  );
}
