package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// maxArguments is how large changed arguments may be; the hub takes no more.
const maxArguments = 4 << 20

func (a *app) inboxApproveCommand() *cobra.Command {
	var reason, arguments, always, shown string
	var everyAgent bool
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "approve ID", Short: "Approve a call, optionally with edited arguments",
		Example: `deckhand inbox approve inbox_3q9
deckhand inbox approve inbox_3q9 --arguments '{"command":"rm -r old/2019"}'
deckhand inbox approve inbox_3q9 --arguments @arguments.json
# and be asked no more about commands that begin so, for a week
deckhand inbox approve inbox_3q9 --always commands --lasts 168h`,
		Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			approve := &deckhandv1.AnswerInboxItemRequest_Approve{}
			if cmd.Flags().Changed("arguments") {
				var err error
				if approve.ArgumentsJson, err = a.readArguments(cmd, arguments); err != nil {
					return err
				}
			}
			if always == "" && (everyAgent || lasts != 0) {
				return usage(cmd, "--every-agent and --lasts go with --always")
			}
			if always != "" {
				approve.Always = &deckhandv1.AlwaysAllow{Scope: always, EveryAgent: everyAgent}
				if lasts != 0 {
					approve.Always.Lasts = durationpb.New(lasts)
				}
			}
			return a.answer(cmd.Context(), &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason, ShownDigest: shown, Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: approve},
			})
		},
	}
	cmd.Flags().StringVar(&arguments, "arguments", "", "a JSON object to call the tool with instead, @FILE to read it from a file, @- from standard input; the agent is told")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&shown, "shown", "", "shown_digest of an earlier inbox show -o json: refuse if anything has changed since; what is approved is printed either way")
	cmd.Flags().StringVar(&always, "always", "", "from now on allow calls like it: exact (these arguments), commands (that begin so), shape (that look alike, as inbox show offers it) or tool (any call); for administrators")
	cmd.Flags().BoolVar(&everyAgent, "every-agent", false, "with --always: of every agent, and not only of this one")
	cmd.Flags().DurationVar(&lasts, "lasts", 0, "with --always: how long, at most 2160h; 720h otherwise")
	return cmd
}

// readArguments returns a JSON object that was given as text, or as @FILE.
func (a *app) readArguments(cmd *cobra.Command, given string) (string, error) {
	text := []byte(given)
	if file, ok := strings.CutPrefix(given, "@"); ok {
		var err error
		if file == "-" {
			text, err = readAll(a.in, maxArguments)
		} else {
			text, err = readBounded(file, maxArguments)
		}
		if err != nil {
			return "", err
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return "", usage(cmd, `--arguments is not a JSON object, give one such as '{"command":"ls"}'`)
	}
	return string(text), nil
}

func (a *app) inboxRejectCommand() *cobra.Command {
	return a.plainAnswer("reject ID", "Reject a call or question (the agent continues without it); reject a review (undo its changes and fail the task)",
		`deckhand inbox reject inbox_3q9 --reason "not on a Friday"`, "why; the agent sees it",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Reject_{Reject: &deckhandv1.AnswerInboxItemRequest_Reject{}}})
}

func (a *app) inboxRetryCommand() *cobra.Command {
	var o override
	var reason string
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Make a call with an unknown outcome once more, or have an escalated task go on",
		Long: `A call with an unknown outcome may then have taken effect twice. An escalated
task goes on with what the flags say in the place of what it had.`,
		Example: `deckhand inbox retry inbox_3q9 --reason "the file is not there"
deckhand inbox retry inbox_9xk --memory 8GiB`,
		Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			retry := &deckhandv1.AnswerInboxItemRequest_Retry{}
			with, err := o.message(cmd)
			if err != nil {
				return err
			}
			if !proto.Equal(with, &deckhandv1.TaskOverride{}) {
				retry.Override = with
			}
			return a.answer(cmd.Context(), &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason, Answer: &deckhandv1.AnswerInboxItemRequest_Retry_{Retry: retry},
			})
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the agent sees it")
	return cmd
}

func (a *app) inboxAcceptCommand() *cobra.Command {
	request := &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Accept_{Accept: &deckhandv1.AnswerInboxItemRequest_Accept{}}}
	cmd := a.plainAnswer("accept ID", "Accept the work of a run in review mode: what was held is made, and the task has succeeded",
		`deckhand inbox accept inbox_9xk`, "why, for the record", request)
	cmd.Flags().StringVar(&request.ShownDigest, "shown", "", "shown_digest of an earlier inbox show -o json: refuse if the work or its workspace has changed since")
	return cmd
}

func (a *app) inboxChangesCommand() *cobra.Command {
	return a.wordedAnswer("changes ID TEXT", "Ask for changes to reviewed work: the agent continues with your comments, and pending requests are dropped",
		`deckhand inbox changes inbox_9xk "the tests are missing"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Changes_{Changes: &deckhandv1.AnswerInboxItemRequest_Changes{Text: text}}}
		})
}

func (a *app) inboxCloseCommand() *cobra.Command {
	return a.plainAnswer("close ID", "End an escalated task",
		`deckhand inbox close inbox_9xk --reason "done by hand"`, "why, for the record",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Close_{Close: &deckhandv1.AnswerInboxItemRequest_Close{}}})
}

func (a *app) inboxSkipCommand() *cobra.Command {
	return a.plainAnswer("skip ID", "Leave a call out and tell the agent so",
		`deckhand inbox skip inbox_3q9 --reason "done by hand"`, "why; the agent sees it",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Skip_{Skip: &deckhandv1.AnswerInboxItemRequest_Skip{}}})
}

func (a *app) inboxSuggestCommand() *cobra.Command {
	return a.wordedAnswer("suggest ID TEXT", "Leave a call out, and tell the agent of another way",
		`deckhand inbox suggest inbox_3q9 "move it to attic/ instead"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Suggest_{Suggest: &deckhandv1.AnswerInboxItemRequest_Suggest{Text: text}}}
		})
}

func (a *app) inboxRequotaCommand() *cobra.Command {
	return a.wordedAnswer("replan ID TEXT", "Leave a call out, and have the agent replace its plan",
		`deckhand inbox replan inbox_3q9 "first a backup, then the migration"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Replan_{Replan: &deckhandv1.AnswerInboxItemRequest_Replan{Text: text}}}
		})
}

func (a *app) inboxAskCommand() *cobra.Command {
	return a.wordedAnswer("ask ID QUESTION", "Ask the agent something before you decide; it may make the call again",
		`deckhand inbox ask inbox_3q9 "who else uses this table?"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Clarify_{Clarify: &deckhandv1.AnswerInboxItemRequest_Clarify{Question: text}}}
		})
}

// wordedAnswer makes a command for an answer that is words.
func (a *app) wordedAnswer(use, short, example string, request func(text string) *deckhandv1.AnswerInboxItemRequest) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: takes("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || strings.TrimSpace(args[1]) == "" {
				return usage(cmd, "say it in words, in quotes")
			}
			r := request(args[1])
			r.ItemId = args[0]
			return a.answer(cmd.Context(), r)
		},
	}
}

// plainAnswer makes a command for an answer that is but its reason.
func (a *app) plainAnswer(use, short, example, why string, request *deckhandv1.AnswerInboxItemRequest) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.ItemId = args[0]
			return a.answer(cmd.Context(), request)
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", why)
	return cmd
}

func (a *app) inboxAnswerCommand() *cobra.Command {
	var reason, choice string
	var yes, no bool
	cmd := &cobra.Command{
		Use: "answer ID [TEXT]", Short: "Answer an agent's question",
		Example: `deckhand inbox answer inbox_3q9 "the one in Frankfurt"
# the second of the choices that inbox show numbers, or its text
deckhand inbox answer inbox_3q9 --choice 2
deckhand inbox answer inbox_3q9 --yes`,
		Args: takes("ID", "[TEXT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var replies []string
			if len(args) > 1 {
				replies = append(replies, args[1])
			}
			if choice != "" {
				replies = append(replies, choice)
			}
			if yes {
				replies = append(replies, "yes")
			}
			if no {
				replies = append(replies, "no")
			}
			if len(replies) != 1 || strings.TrimSpace(replies[0]) == "" {
				return usage(cmd, "give one of TEXT, --choice, --yes and --no")
			}
			reply := replies[0]
			if choice != "" {
				var err error
				if reply, err = a.choose(cmd, args[0], choice); err != nil {
					return err
				}
			}
			return a.answer(cmd.Context(), &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason,
				Answer: &deckhandv1.AnswerInboxItemRequest_Reply_{Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: reply}},
			})
		},
	}
	cmd.Flags().StringVar(&choice, "choice", "", "one of the choices: its number in inbox show, or its text")
	cmd.Flags().BoolVar(&yes, "yes", false, "the answer is yes")
	cmd.Flags().BoolVar(&no, "no", false, "the answer is no")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// choose returns the choice that is meant by its text or, when there is none
// of that text, by its number.
func (a *app) choose(cmd *cobra.Command, id, choice string) (string, error) {
	client, err := a.connect()
	if err != nil {
		return "", err
	}
	item, err := getItem(cmd.Context(), client, id)
	if err != nil {
		return "", err
	}
	choices := item.GetQuestion().GetChoices()
	if slices.Contains(choices, choice) {
		return choice, nil
	}
	if n, err := strconv.Atoi(choice); err == nil && n >= 1 && n <= len(choices) {
		return choices[n-1], nil
	}
	if len(choices) == 0 {
		return "", usage(cmd, "%s is no question with choices, give TEXT, --yes or --no", item.GetId())
	}
	return "", usage(cmd, "--choice %q is none of the %d choices, they are %s", choice, len(choices), strings.Join(choices, ", "))
}

func (a *app) inboxMarkCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "mark ID succeeded|failed", Short: "Say what came of a call with an unknown outcome",
		Example: `deckhand inbox mark inbox_3q9 succeeded --reason "the mail is in the outbox"`,
		Args:    takes("ID", "succeeded|failed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] != "succeeded" && args[1] != "failed" {
				return usage(cmd, "%q is no outcome, give succeeded or failed", args[1])
			}
			return a.answer(cmd.Context(), &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason,
				Answer: &deckhandv1.AnswerInboxItemRequest_Resolve_{Resolve: &deckhandv1.AnswerInboxItemRequest_Resolve{Succeeded: args[1] == "succeeded"}},
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "how that is known; the agent sees it")
	return cmd
}

// answer sends an answer and shows the item as it then is. One that somebody
// else gave meanwhile is the hub's error, which says who did.
func (a *app) answer(ctx context.Context, request *deckhandv1.AnswerInboxItemRequest) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	if request.GetApprove() != nil || request.GetRetry() != nil || request.GetAccept() != nil {
		if err := a.showBefore(ctx, client, request); err != nil {
			return err
		}
	}
	res, err := client.Inbox.AnswerInboxItem(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	return output.Brief(a.printer(), a.inboxNoun(), res.Msg.GetItem())
}

// showBefore shows what is about to be allowed, and binds the answer to it.
// Unless the digest of an earlier look was given, that is what the item is now.
func (a *app) showBefore(ctx context.Context, client *sdk.Client, request *deckhandv1.AnswerInboxItemRequest) error {
	item, err := wholeItem(ctx, client, request.GetItemId())
	if err != nil {
		return err
	}
	if request.ShownDigest == "" {
		request.ShownDigest = item.GetShownDigest()
	}
	if item.GetState() != deckhandv1.InboxState_INBOX_STATE_OPEN || item.GetStepId() == "" {
		return nil
	}
	for _, d := range item.GetDecision().GetDangers() {
		a.notef("dangerous, line %d: %s: %s", d.GetLine(), literal.Line(d.GetWhat()), literal.Line(d.GetCommand()))
	}
	if now := item.GetDecision().GetDefinition(); now != "" {
		a.notef("the tool is agreed to as it is now:\n%s\nwhat was agreed on:\n%s", indented(literal.Block(now)), indented(agreedDefinition(item)))
	}
	a.notef("%s:\n%s", literal.Line(item.GetTool()), indented(lines(item.GetArguments())))
	if note := literal.Note(everyText(item.GetArguments())); note != "" {
		a.notef("%s", note)
	}
	return nil
}

// lines returns a JSON object with a line for each field, exactly as it will be
// used; a value's further lines are indented, so that none passes for a field.
func lines(s *structpb.Struct) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.GetFields())) {
		out = append(out, literal.Line(key)+": "+strings.ReplaceAll(literal.Block(text(s.GetFields()[key])), "\n", "\n  "))
	}
	return strings.Join(out, "\n")
}

// everyText returns the names and texts of a JSON object, one after another.
func everyText(s *structpb.Struct) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.GetFields())) {
		out = append(out, key, text(s.GetFields()[key]))
	}
	return strings.Join(out, "\n")
}
