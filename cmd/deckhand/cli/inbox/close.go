package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func closeCommand(e *env.Env) *cobra.Command {
	return plainAnswer(e, "close ID", "End an escalated task",
		`deckhand inbox close inbox_9xk --reason "done by hand"`, "why, for the record",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Close_{Close: &deckhandv1.AnswerInboxItemRequest_Close{}}})
}
