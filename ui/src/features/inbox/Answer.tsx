import { createClient } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { useQueryClient } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { getComfort } from "@/app/comfort";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { line, type ActObject } from "@/components/marks";
import { Problem } from "@/components/Problem";
import type { Progress } from "@/components/reading";
import { showError } from "@/components/showError";
import { useShortcut } from "@/components/shortcuts";
import { dangersNeedPasskey, proven } from "@/features/passkey/prove";
import { RuleLink } from "@/features/policy/RuleLink";
import { may } from "@/features/session/queries";
import { tasks } from "@/features/task/actions";
import { InboxKind, InboxService, type AnswerInboxItemRequestSchema, type CallDecision, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { EditCall } from "./EditCall";
import type { Guard } from "./guard";
import { Held, mayHold } from "./Held";
import { choicesOf, optionOf } from "./Question";
import { Replan } from "./Replan";
import { RetryTask } from "./RetryTask";
import type { Seen } from "./seen";
import { SomeChanges } from "./SomeChanges";
import { choicesOf as changesOf } from "./someChanges";
import type { Without } from "./without";
import { acceptWord, approvalOf, follows } from "./words";

const inbox = createClient(InboxService, transport);
type Given = NonNullable<MessageInitShape<typeof AnswerInboxItemRequestSchema>["answer"]>;

// The form that is open before the answer is sent.
type Form = "change" | "some" | "reject" | "always" | "suggest" | "replan" | "clarify" | "changes" | "retry" | "stop" | "sure" | undefined;

// Answers with a message that the agent gets instead of the call's result: the
// button, and the label of the text.
const inWords = {
  suggest: ["Suggest an alternative", "Alternative"],
  clarify: ["Ask the agent first", "Your question"],
  changes: ["Ask for changes", "What should change"],
} as const;

// Answers that run the call.
const runs: ReadonlySet<string> = new Set(["approve", "retry", "accept"]);

const inOwnWords = (form: Form): form is keyof typeof inWords => form !== undefined && form in inWords;

// One is an answer: its button, and what follows from it.
type One = { name: string; label: string; look?: "plain" | "primary" | "danger"; key?: string; disabled?: boolean; run: () => void };

// Answer shows the buttons and forms that answer an open item. With keys, the
// buttons have shortcuts.
export function Answer(props: {
  item: InboxItem;
  // The whole arguments, as soon as they are loaded, and the decision about the call.
  args: ActObject | undefined;
  decision: CallDecision | undefined;
  // The item has changed since it was shown.
  changed: boolean;
  guard: Guard;
  // The texts whose end was never in sight.
  unseen: () => Seen[];
  // The parts that have not been shown completely.
  pending: Progress[];
  // What was said about a review, as the text of an answer.
  comments: string;
  // What is left out of the work of a review when it is accepted.
  without: Without;
  keys?: boolean;
  onAnswered: (item: InboxItem) => void;
  // Called when the hub refuses the answer.
  onRefused: () => Promise<void>;
}) {
  const { item, args: asked, guard, pending } = props;
  const queries = useQueryClient();
  const session = useSession();
  const [form, setForm] = useState<Form>();
  const [more, setMore] = useState(false);
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState("exact");
  const [everyAgent, setEveryAgent] = useState(false);
  const [words, setWords] = useState("");
  const [skimmed, setSkimmed] = useState<Seen[]>([]);
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<unknown>();
  // The answer that can still be taken back.
  const [holding, setHolding] = useState<{ said: string; send: () => Promise<void> }>();
  const here = useRef(true);
  useEffect(() => {
    here.current = true;
    return () => void (here.current = false);
  }, []);

  const allowed = may(session, "basic");
  const some = useMemo(() => (asked ? changesOf(item.tool, asked, item.changes) : undefined), [asked, item]);
  const give = async (name: string, answer: Given, said: string, why = reason, dangerous = false, passkey = false) => {
    if (busy || !guard.isReady()) return;
    if (runs.has(answer.case ?? "") && !whole) return;
    setBusy(name);
    setError(undefined);
    let takes = item.needsPasskey || passkey;
    try {
      takes ||= dangerous && (await dangersNeedPasskey());
    } catch (e) {
      setBusy("");
      return setError(e);
    }
    const request = { itemId: item.id, reason: why.trim(), answer, shownDigest: item.shownDigest };
    const send = async () => {
      try {
        const res = await inbox.answerInboxItem(await proven(request, takes));
        toast(said, { description: line(`${item.agentName} · ${item.sentence || item.tool || item.taskTitle}`) });
        setForm(undefined);
        if (res.item) props.onAnswered(res.item);
        void queries.invalidateQueries();
      } catch (e) {
        setError(e);
        if (!here.current) showError(e);
        await props.onRefused();
        void queries.invalidateQueries();
      } finally {
        setBusy("");
      }
    };
    // A passkey proves that the person means it: such an answer is not held.
    if (getComfort().undo && !takes && mayHold(item)) setHolding({ said, send });
    else await send();
  };
  const approval = item.kind === InboxKind.APPROVAL;
  const question = item.kind === InboxKind.QUESTION;
  const unknown = item.kind === InboxKind.UNKNOWN;
  const review = item.kind === InboxKind.REVIEW;
  const escalated = item.kind === InboxKind.ESCALATION;
  // What is dangerous takes a second answer.
  const danger = approval ? approvalOf(item.tool, item.category, props.decision) : undefined;
  const approveWord = danger ? `Approve ${danger}` : "Approve";
  const send = () => void give("approve", { case: "approve", value: {} }, "Approved");
  const approve = () => {
    if (!guard.isReady() || !whole) return;
    const unseen = props.unseen();
    if (danger || unseen.length > 0) {
      setSkimmed(unseen);
      setForm("sure");
    } else send();
  };
  const accept = () => {
    const { paths, stepIds } = props.without;
    void give("accept", { case: "accept", value: { withoutPaths: paths, withoutStepIds: stepIds } }, paths.length + stepIds.length > 0 ? "Accepted in part" : "Accepted");
  };
  const show = (f: Form) => () => {
    if (!guard.isReady()) return;
    if (f === "changes" && !words.trim()) setWords(props.comments);
    setForm(f);
  };
  const skip = () => void give("skip", { case: "skip", value: {} }, "Skipped");
  // A key that is held down is one answer at most.
  const once = (run: () => unknown) => (e: KeyboardEvent) => !e.repeat && run();
  const on = Boolean(props.keys) && allowed && !holding;
  // What has the call made needs it to have been shown, whole and as it is now.
  const whole = asked !== undefined && pending.length === 0 && !props.changed;
  const still = !guard.ready;
  const choices = question ? choicesOf(item) : [];
  const reply = (text: string) => void give("reply", { case: "reply", value: { text } }, "Answered");
  useShortcut("a", approveWord, "Inbox", once(approve), on && approval && form === undefined);
  useShortcut("y", `Yes, ${approveWord.toLowerCase()}`, "Inbox", once(send), on && approval && form === "sure");
  useShortcut("c", "Edit and approve", "Inbox", once(show("change")), on && approval);
  useShortcut("r", "Reject", "Inbox", once(show("reject")), on && (approval || question || review));
  useShortcut("a", "Accept the work", "Inbox", once(accept), on && review);
  useShortcut("c", "Ask for changes", "Inbox", once(show("changes")), on && review);
  useShortcut("t", "Retry the task", "Inbox", once(show("retry")), on && escalated);
  useShortcut("s", "Skip", "Inbox", once(skip), on && (approval || unknown));

  if (!allowed) {
    return (
      <p className="text-dim">
        Your role ({session.role}) cannot answer. Ask an admin or the task&apos;s owner{item.submittedBy && ` (${item.submittedBy})`}.
      </p>
    );
  }

  if (holding) {
    const over = () => setHolding(undefined);
    return (
      <Held
        said={holding.said}
        keys={Boolean(props.keys)}
        send={() => {
          over();
          void holding.send();
        }}
        undo={() => {
          over();
          setBusy("");
        }}
      />
    );
  }

  const next = follows(item, props.without);
  const back = () => setForm(undefined);
  const button = (o: One) => (
    <div key={o.name} className="min-w-0 space-y-0.5">
      <Button look={o.look} disabled={o.disabled} busy={busy === o.name} className="max-sm:min-h-11 max-sm:w-full max-sm:py-1 max-sm:whitespace-normal" onClick={o.run}>
        <Literal text={o.label} />
      </Button>
      {next[o.name] && <p className="text-xs break-words text-dim">{next[o.name]}</p>}
    </div>
  );

  const retryCall: One = { name: "retry", label: "Run it again", disabled: !whole, run: () => void give("retry", { case: "retry", value: {} }, "Running it again") };
  const resolved = (succeeded: boolean): One => ({
    name: succeeded ? "succeeded" : "failed",
    label: succeeded ? "It succeeded" : "It failed",
    run: () => void give(succeeded ? "succeeded" : "failed", { case: "resolve", value: { succeeded } }, succeeded ? "Recorded as succeeded" : "Recorded as failed"),
  });
  const rejecting: One = { name: "reject", label: "Reject", look: danger ? "primary" : "danger", run: show("reject") };
  const first: One[] = approval
    ? [{ name: "approve", label: approveWord, look: danger ? "danger" : "primary", disabled: !whole, run: approve }, rejecting]
    : unknown
      ? props.decision?.reversible
        ? [retryCall, resolved(true), resolved(false), { name: "skip", label: "Skip", run: skip }]
        : [resolved(true), resolved(false), { name: "skip", label: "Skip", run: skip }, retryCall]
      : review
        ? [{ name: "accept", label: acceptWord(item, props.without), look: "primary", disabled: !whole, run: accept }, { name: "changes", label: "Ask for changes", run: show("changes") }, rejecting]
        : escalated
          ? [
              { name: "retry", label: "Retry", look: "primary", run: show("retry") },
              { name: "close", label: "Close the task", look: "danger", run: () => void give("close", { case: "close", value: {} }, "Closed") },
            ]
          : [
              { name: "decide", label: "Let it decide", run: () => void give("decide", { case: "reject", value: {} }, "The agent decides", "Decide yourself: use your own judgement.") },
              { name: "reject", label: "Reject", run: show("reject") },
              { name: "stop", label: "Stop the task", look: "danger", run: show("stop") },
            ];
  const others: One[] = approval
    ? [
        ...(some ? [{ name: "some", label: "Approve some changes", disabled: !whole, run: show("some") }] : []),
        { name: "edit", label: "Edit and approve", disabled: !whole, run: show("change") },
        ...(["suggest", "clarify"] as const).map((f): One => ({ name: f, label: inWords[f][0], run: show(f) })),
        { name: "replan", label: "Replace the plan", run: show("replan") },
        { name: "skip", label: "Skip", run: skip },
        ...(may(session, "admin") ? [{ name: "always", label: "Always allow", run: show("always") }] : []),
      ]
    : [];

  return (
    <div className="space-y-3">
      {item.offer && form === undefined && may(session, "admin") && (
        <div role="note" className="flex flex-wrap items-center gap-3 rounded-md border bg-raised p-2.5">
          <p className="min-w-0 flex-1 break-words">
            {item.offer.approvals} similar calls were approved in the last 30 days and none was rejected:{" "}
            <span className="font-mono text-xs">
              <Literal text={item.offer.shape} />
            </span>
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
      {question && form === undefined && <Reply key={item.id} item={item} choices={choices} keys={on} still={still} busy={busy} onReply={reply} />}
      {!whole && !props.changed && (approval || unknown || review) && (
        <p role="note" className="text-warn">
          You can {review ? "accept" : unknown ? "retry" : "approve"} when you have seen all of it
          {pending.length > 0 && `: ${pending.map((p) => (p.of > 1 ? `${p.label}, ${p.shown} of ${p.of} parts` : p.label)).join("; ")}`}.
        </p>
      )}
      {item.needsPasskey && (
        <p role="note" className="flex items-center gap-1.5">
          <KeyRound aria-hidden className="size-4 shrink-0" />
          <span>
            {review ? "Accepting" : unknown ? "Running it again" : "Approving"} takes your passkey
            {props.decision?.passkey && props.decision.rule ? (
              <>
                : the policy&apos;s rule <Literal text={props.decision.rule} /> asks for it.
              </>
            ) : (
              "."
            )}
          </span>
        </p>
      )}
      {form === undefined && (
        <fieldset disabled={still} aria-label="Answers" className="space-y-2">
          <div className={first.length > 2 ? "grid gap-2 sm:grid-cols-2" : "grid grid-cols-2 gap-2"}>{first.map(button)}</div>
          {others.length > 0 && (
            <Button look="quiet" aria-expanded={more} onClick={() => setMore(!more)}>
              {more ? "Fewer answers" : "More answers"}
            </Button>
          )}
          {more && <div className="grid gap-2 sm:grid-cols-2">{others.map(button)}</div>}
        </fieldset>
      )}
      {form === "change" && asked !== undefined && (
        <EditCall
          item={item}
          asked={asked}
          busy={busy === "approve"}
          disabled={!whole || still}
          onApprove={(argumentsJson, judgedDigest, dangerous, passkey) =>
            void give("approve", { case: "approve", value: { argumentsJson, judgedDigest } }, "Approved with changes", reason, dangerous, passkey)
          }
          onBack={back}
        />
      )}
      {form === "some" && some && (
        <SomeChanges
          item={item}
          choices={some}
          busy={busy === "approve"}
          disabled={!whole || still}
          onApprove={(argumentsJson, judgedDigest, dangerous, passkey) =>
            void give("approve", { case: "approve", value: { argumentsJson, judgedDigest } }, "Approved in part", reason, dangerous, passkey)
          }
          onBack={back}
        />
      )}
      {form === "replan" && (
        <Replan
          taskId={item.taskId}
          busy={busy === "replan"}
          disabled={still}
          onReplan={(value) => void give("replan", { case: "replan", value }, "The plan was replaced")}
          onBack={back}
        />
      )}
      {form === "retry" && (
        <RetryTask
          item={item}
          busy={busy === "retry"}
          disabled={still}
          onRetry={(override) => void give("retry", { case: "retry", value: override ? { override } : {} }, "Retrying")}
          onBack={back}
        />
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
            <input type="checkbox" className="size-4 accent-accent" checked={everyAgent} onChange={(e) => setEveryAgent(e.target.checked)} />
            for every agent
          </label>
        </div>
      )}
      {inOwnWords(form) && (
        <Field
          label={inWords[form][1]}
          hint={form === "changes" ? "The agent continues with your comments. Pending requests are dropped." : "The call will not run. The agent gets this message."}
        >
          <TextArea rows={form === "changes" ? 6 : 3} value={words} maxLength={4000} autoFocus onChange={(e) => setWords(e.target.value)} />
        </Field>
      )}
      {(form === "reject" || form === "always" || form === "stop" || form === "suggest" || form === "clarify") && (
        <Field label="Reason" hint={form === "reject" && review ? "All file changes are undone and the task fails." : form === "reject" ? "Shown to the agent." : "Stored in the audit log."}>
          <Input value={reason} maxLength={4000} autoFocus={form === "reject" || form === "stop"} onChange={(e) => setReason(e.target.value)} />
        </Field>
      )}
      {form === "sure" && (
        <div role="group" aria-label="Approve?" className="space-y-2 rounded-md border border-bad p-2.5">
          {danger && <p className="font-medium text-bad">This approves {danger}.</p>}
          {skimmed.map((s, i) => (
            <p key={i} className="text-warn">
              You have seen {s.lines} of {s.of} lines of <Literal text={s.label} />.
            </p>
          ))}
          <Row still={still}>
            <Button look="danger" busy={busy === "approve"} disabled={!whole} onClick={send}>
              Yes, {approveWord.toLowerCase()}
            </Button>
            <Button onClick={back}>Back</Button>
          </Row>
        </div>
      )}
      {form === "reject" && (
        <Row still={still}>
          <Button look="danger" busy={busy === "reject"} onClick={() => void give("reject", { case: "reject", value: {} }, "Rejected")}>
            Reject
          </Button>
          <Button onClick={back}>Back</Button>
        </Row>
      )}
      {form === "stop" && (
        <Row still={still}>
          <Button
            look="danger"
            busy={busy === "stop"}
            onClick={() => {
              if (busy || !guard.isReady()) return;
              setBusy("stop");
              tasks
                .cancelTask({ taskId: item.taskId, reason: reason.trim() })
                .then(() => (toast("Stopped"), setForm(undefined), props.onRefused()))
                .catch(setError)
                .finally(() => (setBusy(""), void queries.invalidateQueries()));
            }}
          >
            Stop the task
          </Button>
          <Button onClick={back}>Back</Button>
        </Row>
      )}
      {inOwnWords(form) && (
        <Row still={still}>
          <Button
            look="primary"
            disabled={!words.trim()}
            busy={busy === form}
            onClick={() =>
              void give(form, form === "clarify" ? { case: form, value: { question: words.trim() } } : { case: form, value: { text: words.trim() } }, "Answered")
            }
          >
            {inWords[form][0]}
          </Button>
          <Button onClick={back}>Back</Button>
        </Row>
      )}
      {form === "always" && (
        <Row still={still}>
          <Button
            look="primary"
            disabled={!whole}
            busy={busy === "approve"}
            onClick={() => void give("approve", { case: "approve", value: { always: { scope, everyAgent } } }, "Approved, and allowed for 30 days")}
          >
            Approve and allow
          </Button>
          <Button onClick={back}>Back</Button>
          <RuleLink tool={item.tool} arguments={item.arguments} agent={item.agentName} className="inline-flex min-h-8 items-center px-1 underline" />
        </Row>
      )}
      {error !== undefined && !props.changed && <Problem error={error} />}
    </div>
  );
}

function Row(props: { still: boolean; children: ReactNode }) {
  return (
    <fieldset disabled={props.still} className="flex flex-wrap gap-2">
      {props.children}
    </fieldset>
  );
}

// Reply takes the answer to a question: one of its choices, by its number too, or
// words.
function Reply(props: { item: InboxItem; choices: string[]; keys: boolean; still: boolean; busy: string; onReply: (text: string) => void }) {
  const { choices, item } = props;
  const [text, setText] = useState(item.question?.defaultAnswer ?? "");
  if (choices.length > 0)
    return (
      <fieldset disabled={props.still} aria-label="Answer" className="flex flex-wrap gap-2">
        {choices.map((c, i) => {
          const description = optionOf(item, c)?.description;
          const choice = <Choice key={c} nth={i + 1} keys={props.keys} isDefault={c === item.question?.defaultAnswer} text={c} busy={props.busy !== ""} onReply={props.onReply} />;
          return description ? (
            <div key={c} className="flex basis-full flex-wrap items-center gap-2">
              {choice}
              <p className="min-w-0 flex-1 text-xs break-words text-dim">
                <Literal text={description} />
              </p>
            </div>
          ) : (
            choice
          );
        })}
      </fieldset>
    );
  const send = () => text.trim() && props.onReply(text);
  return (
    <form
      className="flex items-end gap-2 max-sm:flex-col max-sm:items-stretch"
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      <div className="flex-1">
        <Field label="Your answer" hint="Ctrl+Enter sends it.">
          <TextArea
            rows={3}
            value={text}
            maxLength={20_000}
            onChange={(e) => setText(e.target.value)}
            onKeyDown={(e) => {
              if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.repeat) return;
              e.preventDefault();
              send();
            }}
          />
        </Field>
      </div>
      <Button type="submit" look="primary" disabled={!text.trim() || props.still} busy={props.busy === "reply"}>
        Answer
      </Button>
    </form>
  );
}

function Choice(props: { nth: number; text: string; keys: boolean; isDefault: boolean; busy: boolean; onReply: (text: string) => void }) {
  const { nth, text } = props;
  useShortcut(String(nth), `Answer ${line(text)}`, "Inbox", (e) => !e.repeat && props.onReply(text), props.keys && nth <= 9);
  return (
    <Button look={props.isDefault ? "primary" : "plain"} busy={props.busy} className="max-sm:min-h-11" onClick={() => props.onReply(text)}>
      {props.keys && nth <= 9 && <span aria-hidden className="text-xs opacity-70">{nth}</span>}
      <Literal text={text} />
    </Button>
  );
}
