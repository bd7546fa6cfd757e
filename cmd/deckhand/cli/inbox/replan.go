package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func replanCommand(e *env.Env) *cobra.Command {
	return wordedAnswer(e, "replan ID TEXT", "Leave a call out, and have the agent replace its plan",
		`deckhand inbox replan inbox_3q9 "first a backup, then the migration"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Replan_{Replan: &deckhandv1.AnswerInboxItemRequest_Replan{Text: text}}}
		})
}
