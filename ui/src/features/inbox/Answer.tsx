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
import { proven } from "@/features/passkey/prove";
import { may } from "@/features/session/queries";
import { InboxKind, InboxService, type AnswerInboxItemRequestSchema, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import type { Guard } from "./guard";

const inbox = createClient(InboxService, transport);
type Given = NonNullable<MessageInitShape<typeof AnswerInboxItemRequestSchema>["answer"]>;

// The form that is open before the answer is sent.
type Form = "change" | "reject" | "always" | "suggest" | "replan" | "clarify" | "changes" | "retry" | undefined;

// Answers with a message that the agent gets instead of the call's result: the
// button, and the label of the text.
const inWords = {
  suggest: ["Suggest an alternative", "Alternative"],
  replan: ["Give it a new plan", "New plan"],
  clarify: ["Ask the agent first", "Your question"],
  changes: ["Ask for changes", "What should change"],
} as const;

// Answers that run the call.
const runs: ReadonlySet<string> = new Set(["approve", "retry", "accept"]);

const inOwnWords = (form: Form): form is keyof typeof inWords => form !== undefined && form in inWords;

// Answer shows the buttons and forms that answer an open item. With keys, the
// buttons have shortcuts.
export function Answer(props: {
  item: InboxItem;
  // The whole arguments, as soon as they are loaded.
  args: ActObject | undefined;
  // The item has changed since it was shown.
  changed: boolean;
  guard: Guard;
  // The parts that have not been shown completely.
  pending: Progress[];
  keys?: boolean;
  onAnswered: (item: InboxItem) => void;
  // Called when the hub refuses the answer.
  onRefused: () => Promise<void>;
}) {
  const { item, args: asked, guard, pending } = props;
  const queries = useQueryClient();
  const session = useSession();
  const [form, setForm] = useState<Form>();
  const [reason, setReason] = useState("");
  const [reply, setReply] = useState(item.question?.defaultAnswer ?? "");
  // The edited arguments; undefined while they are unchanged.
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
      const res = await inbox.answerInboxItem(
        await proven({ itemId: item.id, reason: reason.trim(), answer, shownDigest: item.shownDigest }, item.needsPasskey),
      );
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
  useShortcut("c", "Edit and approve", "Inbox", once(show("change")), on && approval);
  useShortcut("r", "Reject", "Inbox", once(show("reject")), on && (approval || question || review));
  useShortcut("a", "Accept the work", "Inbox", once(accept), on && review);
  useShortcut("c", "Ask for changes", "Inbox", once(show("changes")), on && review);
  useShortcut("t", "Retry the task", "Inbox", once(show("retry")), on && escalated);
  useShortcut("s", "Skip", "Inbox", once(() => void give("skip", { case: "skip", value: {} }, "Skipped")), on && (approval || unknown));

  if (!allowed) {
    return (
      <p className="text-dim">
        Your role ({session.role}) cannot answer. Ask an admin or the task&apos;s owner{item.submittedBy && ` (${item.submittedBy})`}.
      </p>
    );
  }

  const memoryProblem = memory.trim() && !(Number(memory) > 0 && Number(memory) <= 16384) ? "Enter a number of GiB above 0, such as 8." : undefined;
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
        <Field label="Arguments (JSON)" problem={problem} hint="The agent sees what you changed.">
          <TextArea className="font-mono text-xs" rows={8} value={args} spellCheck={false} autoFocus onChange={(e) => setArgs(e.target.value)} />
        </Field>
      )}
      {item.offer && form === undefined && may(session, "admin") && (
        <div role="note" className="flex flex-wrap items-center gap-3 rounded-md border bg-raised p-2.5">
          <p className="min-w-0 flex-1 break-words">
            {item.offer.approvals} similar calls were approved in the last 30 days and none was rejected:{" "}
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
            Stop asking about these
          </Button>
        </div>
      )}
      {form === "always" && (
        <div className="flex flex-wrap items-end gap-4">
          <Field label="For the next 30 days, allow without asking">
            <Select value={scope} onChange={(e) => setScope(e.target.value)}>
              <option value="exact">exactly this call</option>
              <option value="commands">the same commands with other arguments</option>
              {item.offer && <option value="shape">similar calls ({line(item.offer.shape)})</option>}
              <option value="tool">every {line(item.tool)}</option>
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
          <Field label="Memory (GiB)" hint="Leave empty to keep the current limit." problem={memoryProblem}>
            <Input inputMode="decimal" value={memory} onChange={(e) => setMemory(e.target.value)} />
          </Field>
          <Field label="Provider" hint="Leave empty to keep the current provider.">
            <Input value={provider} maxLength={64} onChange={(e) => setProvider(e.target.value)} />
          </Field>
          <Field label="Model" problem={Boolean(provider.trim()) !== Boolean(model.trim()) ? "Set both provider and model, or neither." : undefined}>
            <Input value={model} maxLength={128} onChange={(e) => setModel(e.target.value)} />
          </Field>
        </div>
      )}
      {inOwnWords(form) && (
        <Field
          label={inWords[form][1]}
          hint={form === "changes" ? "The agent continues with your comments. Pending requests are dropped." : "The call will not run. The agent gets this message."}
        >
          <TextArea rows={3} value={words} maxLength={4000} autoFocus onChange={(e) => setWords(e.target.value)} />
        </Field>
      )}
      {form && form !== "changes" && (
        <Field label="Reason" hint={form === "reject" && review ? "All file changes are undone and the task fails." : form === "reject" ? "Shown to the agent." : "Stored in the audit log."}>
          <Input value={reason} maxLength={4000} autoFocus={form === "reject"} onChange={(e) => setReason(e.target.value)} />
        </Field>
      )}
      {!whole && !props.changed && (approval || unknown || review) && (
        <p role="note" className="text-warn">
          You can {review ? "accept" : unknown ? "retry" : "approve"} when you have seen all of it
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
              Approve edited call
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
                  "Retrying",
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
                void give("approve", { case: "approve", value: { always: { scope, everyAgent } } }, "Approved, and allowed for 30 days")
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
                <Button disabled={!whole} onClick={() => setForm("change")}>Edit and approve</Button>
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
                <Button disabled={!whole} busy={busy === "retry"} onClick={() => void give("retry", { case: "retry", value: {} }, "Running it again")}>
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
