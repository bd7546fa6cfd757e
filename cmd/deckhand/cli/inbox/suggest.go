package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func suggestCommand(e *env.Env) *cobra.Command {
	return wordedAnswer(e, "suggest ID TEXT", "Leave a call out, and tell the agent of another way",
		`deckhand inbox suggest inbox_3q9 "move it to attic/ instead"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Suggest_{Suggest: &deckhandv1.AnswerInboxItemRequest_Suggest{Text: text}}}
		})
}
