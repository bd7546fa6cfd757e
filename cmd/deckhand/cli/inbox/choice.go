package inbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxEdited bounds an edited call, in bytes; the hub refuses more.
const maxEdited = 4 << 20

// question is what a review asks about an item.
func question(item *deckhandv1.InboxItem) string {
	switch item.GetKind() {
	case deckhandv1.InboxKind_INBOX_KIND_APPROVAL:
		return "Run this call?"
	case deckhandv1.InboxKind_INBOX_KIND_QUESTION:
		return "Reply?"
	case deckhandv1.InboxKind_INBOX_KIND_REVIEW:
		return "Accept this work?"
	}
	return "What now?"
}

func keysOf(choices []choice) string {
	keys := make([]string, len(choices))
	for i, c := range choices {
		keys[i] = c.key
	}
	return strings.Join(keys, ",")
}

type request = deckhandv1.AnswerInboxItemRequest

// plain is an answer of which the text is the reason.
func plain(fill func(r *request)) func(*deckhandv1.InboxItem, string) *request {
	return func(_ *deckhandv1.InboxItem, text string) *request {
		r := &request{Reason: text}
		fill(r)
		return r
	}
}

// The answers that several kinds share.
var (
	reject = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Reject_{Reject: &deckhandv1.AnswerInboxItemRequest_Reject{}}
	})
	skip = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Skip_{Skip: &deckhandv1.AnswerInboxItemRequest_Skip{}}
	})
	retry = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Retry_{Retry: &deckhandv1.AnswerInboxItemRequest_Retry{}}
	})
	closing = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Close_{Close: &deckhandv1.AnswerInboxItemRequest_Close{}}
	})
	accept = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Accept_{Accept: &deckhandv1.AnswerInboxItemRequest_Accept{}}
	})
	allow = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Allow_{Allow: &deckhandv1.AnswerInboxItemRequest_Allow{}}
	})
	resume = plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Resume_{Resume: &deckhandv1.AnswerInboxItemRequest_Resume{}}
	})
	dismissing = choice{key: "d", name: "dismiss", follows: "nothing goes on, and the item is closed", words: "Reason:", optional: true, request: plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Dismiss_{Dismiss: &deckhandv1.AnswerInboxItemRequest_Dismiss{}}
	})}
)

func resolve(succeeded bool) func(*deckhandv1.InboxItem, string) *request {
	return plain(func(r *request) {
		r.Answer = &deckhandv1.AnswerInboxItemRequest_Resolve_{Resolve: &deckhandv1.AnswerInboxItemRequest_Resolve{Succeeded: succeeded}}
	})
}

// approve approves a call, with edited arguments if there are any.
func approve(_ *deckhandv1.InboxItem, arguments string) *request {
	return &request{Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{ArgumentsJson: arguments}}}
}

// choicesOf returns what may be done with an item here: what takes a passkey is done in the
// console.
func choicesOf(item *deckhandv1.InboxItem) []choice {
	out := allChoices(item)
	if item.GetNeedsPasskey() {
		out = slices.DeleteFunc(out, func(c choice) bool { return c.runs })
	}
	return out
}

func allChoices(item *deckhandv1.InboxItem) []choice {
	switch item.GetKind() {
	case deckhandv1.InboxKind_INBOX_KIND_APPROVAL:
		return []choice{
			{key: "y", name: "approve", follows: "it runs once, now, and the agent goes on", runs: true, request: approve},
			{key: "n", name: "reject", follows: "it does not run; the agent is told the reason and goes on", words: "Reason (the agent sees it):", optional: true, request: reject},
			{key: "e", name: "edit", follows: "the edited call runs instead; the agent is told what was changed", runs: true, request: approve},
		}
	case deckhandv1.InboxKind_INBOX_KIND_QUESTION:
		return []choice{
			{key: "y", name: "reply", follows: "the agent gets the reply and goes on", words: "Reply:", request: func(item *deckhandv1.InboxItem, text string) *request {
				return &request{Answer: &deckhandv1.AnswerInboxItemRequest_Reply_{Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: numberedChoice(item, text)}}}
			}},
			{key: "n", name: "do not reply", follows: "the agent is told that nobody answers", words: "Reason (the agent sees it):", optional: true, request: reject},
		}
	case deckhandv1.InboxKind_INBOX_KIND_UNKNOWN:
		return []choice{
			{key: "k", name: "it succeeded", follows: "the agent goes on as if it had", words: "How is that known:", optional: true, request: resolve(true)},
			{key: "f", name: "it failed", follows: "the agent is told so", words: "How is that known:", optional: true, request: resolve(false)},
			{key: "n", name: "leave it out", follows: "the agent is told that it was left out", words: "Reason (the agent sees it):", optional: true, request: skip},
			{key: "y", name: "run it again", follows: "it may happen twice", runs: true, request: retry},
		}
	case deckhandv1.InboxKind_INBOX_KIND_REVIEW:
		return []choice{
			{key: "y", name: "accept", follows: "its deferred calls run, and the task has succeeded", runs: true, request: accept},
			{key: "c", name: "ask for changes", follows: "the agent goes on with your comments; deferred calls are dropped", words: "What should change:", request: func(_ *deckhandv1.InboxItem, text string) *request {
				return &request{Answer: &deckhandv1.AnswerInboxItemRequest_Changes_{Changes: &deckhandv1.AnswerInboxItemRequest_Changes{Text: text}}}
			}},
			{key: "n", name: "reject", follows: "all file changes are undone, and the task fails", words: "Reason:", optional: true, request: reject},
		}
	case deckhandv1.InboxKind_INBOX_KIND_ESCALATION:
		return []choice{
			{key: "y", name: "retry", follows: "the task tries again, as it is", request: retry},
			{key: "n", name: "close", follows: "the task ends; its files stay", words: "Reason:", optional: true, request: closing},
		}
	}
	return stopChoices(item)
}

// stopChoices is choicesOf for work that stopped.
func stopChoices(item *deckhandv1.InboxItem) []choice {
	var out []choice
	stop := item.GetStop()
	if offer := max(stop.GetLimitOffer(), stop.GetOfferMicros()); offer > 0 {
		out = append(out, choice{
			key: "y", name: "raise it to " + limitText(item, offer), follows: "the work goes on",
			request: func(item *deckhandv1.InboxItem, _ string) *request { return raiseRequest(item, offer, "") },
		})
	}
	switch item.GetKind() {
	case deckhandv1.InboxKind_INBOX_KIND_LIMIT:
		return append(out, choice{key: "n", name: "end the task", follows: "its files stay", words: "Reason:", optional: true, request: closing})
	case deckhandv1.InboxKind_INBOX_KIND_BUDGET, deckhandv1.InboxKind_INBOX_KIND_PROVIDER:
		out = append(out, choice{key: "t", name: "try again", follows: "the tasks that wait are resumed", request: resume})
	case deckhandv1.InboxKind_INBOX_KIND_SUSPENDED:
		out = append(out, choice{key: "y", name: "resume the agent", follows: "its tasks start again", request: resume})
	case deckhandv1.InboxKind_INBOX_KIND_EGRESS:
		if stop.GetChange().GetProblem() == "" {
			out = append(out, choice{key: "y", name: "allow it for the agent", follows: "the persona above is applied; running tasks go on with it", runs: true, request: allow})
		}
	}
	return append(out, dismissing)
}

// numberedChoice returns a question's choice by its number, or the text itself.
func numberedChoice(item *deckhandv1.InboxItem, text string) string {
	for i, c := range item.GetQuestion().GetChoices() {
		if text == fmt.Sprint(i+1) {
			return c
		}
	}
	return text
}

// editable returns what a person edits of a call: the command by itself, or all arguments
// as JSON.
func editable(item *deckhandv1.InboxItem) (text string, whole bool, err error) {
	if item.GetTool() == toolname.ShellExec {
		if command := item.GetArguments().GetFields()["command"].GetStringValue(); command != "" {
			return command, false, nil
		}
	}
	data, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(item.GetArguments())
	return string(data) + "\n", true, err
}

// edited returns the arguments of an edited call as JSON, and the difference; both are
// empty if nothing was changed.
func edited(item *deckhandv1.InboxItem, before, after string, whole bool) (arguments, diff string, err error) {
	if !whole && !strings.HasSuffix(before, "\n") {
		after = strings.TrimSuffix(after, "\n") // editors end the last line
	}
	if after == before {
		return "", "", nil
	}
	diff = udiff.Unified("requested", "edited", before, after)
	if whole {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(after), &object); err != nil || object == nil {
			return "", "", fault.New(fault.Invalid, "the edited arguments are not a JSON object").WithFix("edit them again")
		}
		return after, diff, nil
	}
	values := item.GetArguments().AsMap()
	values["command"] = after
	data, err := json.Marshal(values)
	return string(data), diff, err
}

// dangersFirst returns what a person must know before all else: that a passkey is needed, and
// what is dangerous in a call, a line for each.
func dangersFirst(item *deckhandv1.InboxItem) string {
	var out string
	if item.GetNeedsPasskey() {
		out = "PASSKEY NEEDED\n" + indented("to let this run, open it in the console, on a device that has one of your passkeys: deckhand open") + "\n"
	}
	return out + dangerBlock(item.GetDecision())
}

// dangerBlock returns what is dangerous in a call, with a heading; "" if nothing is.
func dangerBlock(d *deckhandv1.CallDecision) string {
	text := dangerLines(d)
	if text == "" {
		return ""
	}
	return "DANGEROUS\n" + indented(text) + "\n"
}

// sheetOf returns an item as a person reads it: what is dangerous first, then all of it once.
func sheetOf(e *env.Env, item *deckhandv1.InboxItem) string {
	var out strings.Builder
	head := output.EnumName(item.GetKind())
	if item.GetAgentName() != "" {
		head += " · " + item.GetAgentName()
	}
	if item.GetExpiresAt() != nil {
		head += " · expires in " + timeLeft(e, item)
	}
	fmt.Fprintf(&out, "%s · %s\n%s", head, literal.Line(item.GetId()), dangersFirst(item))
	p := *e.Printer()
	p.Out = &out
	if err := output.One(&p, noun(e), item); err != nil {
		return out.String() + literal.Line(err.Error())
	}
	return out.String()
}
