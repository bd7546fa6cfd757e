package inbox

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// wordedAnswer makes a command for an answer that is words.
func wordedAnswer(e *env.Env, use, short, example string, request func(text string) *deckhandv1.AnswerInboxItemRequest) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: env.Args("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || strings.TrimSpace(args[1]) == "" {
				return env.Usage(cmd, "say it in words, in quotes")
			}
			r := request(args[1])
			r.ItemId = args[0]
			return send(cmd.Context(), e, r)
		},
	}
}

// plainAnswer makes a command for an answer that is but its reason.
func plainAnswer(e *env.Env, use, short, example, why string, request *deckhandv1.AnswerInboxItemRequest) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: env.Args("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.ItemId = args[0]
			return send(cmd.Context(), e, request)
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", why)
	return cmd
}

// send sends an answer and shows the item as it then is. One that somebody
// else gave meanwhile is the hub's error, which says who did.
func send(ctx context.Context, e *env.Env, request *deckhandv1.AnswerInboxItemRequest) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	if request.GetApprove() != nil || request.GetRetry() != nil || request.GetAccept() != nil || request.GetAllow() != nil {
		if err := showBefore(ctx, e, client, request); err != nil {
			return err
		}
	}
	res, err := client.Inbox.AnswerInboxItem(ctx, request)
	if err != nil {
		return err
	}
	return output.Brief(e.Printer(), noun(e), res.GetItem())
}

// showBefore shows what is about to be allowed, and binds the answer to it.
// Unless the digest of an earlier look was given, that is what the item is now.
func showBefore(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.AnswerInboxItemRequest) error {
	item, err := wholeItem(ctx, client, request.GetItemId())
	if err != nil {
		return err
	}
	if request.ShownDigest == "" {
		request.ShownDigest = item.GetShownDigest()
	}
	if change := item.GetStop().GetChange(); change != nil {
		e.Notef("the persona would change:\n%s", indented(literal.Block(change.GetDiff())))
	}
	if item.GetState() != deckhandv1.InboxState_INBOX_STATE_OPEN || item.GetStepId() == "" {
		return nil
	}
	for _, d := range item.GetDecision().GetDangers() {
		e.Notef("dangerous, line %d: %s: %s", d.GetLine(), literal.Line(d.GetWhat()), literal.Line(d.GetCommand()))
	}
	if now := item.GetDecision().GetDefinition(); now != "" {
		e.Notef("the tool is agreed to as it is now:\n%s\nwhat was agreed on:\n%s", indented(literal.Block(now)), indented(agreedDefinition(item)))
	}
	e.Notef("%s:\n%s", literal.Line(item.GetTool()), indented(lines(item.GetArguments())))
	if note := literal.Note(everyText(item.GetArguments())); note != "" {
		e.Notef("%s", note)
	}
	return nil
}
