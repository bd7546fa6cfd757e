package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func changesCommand(e *env.Env) *cobra.Command {
	return wordedAnswer(e, "changes ID TEXT", "Ask for changes to reviewed work: the agent continues with your comments, and pending requests are dropped",
		`deckhand inbox changes inbox_9xk "the tests are missing"`, func(text string) *deckhandv1.AnswerInboxItemRequest {
			return &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Changes_{Changes: &deckhandv1.AnswerInboxItemRequest_Changes{Text: text}}}
		})
}
