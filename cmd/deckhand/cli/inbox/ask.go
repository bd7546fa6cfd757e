package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func askCommand(e *env.Env) *cobra.Command {
	return wordedAnswer(e, "ask ID QUESTION", "Ask the agent something before you decide; it may make the call again",
		`deckhand inbox ask inbox_3q9 "who else uses this table?"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Clarify_{Clarify: &deckhandv1.AnswerInboxItemRequest_Clarify{Question: text}}}
		})
}
