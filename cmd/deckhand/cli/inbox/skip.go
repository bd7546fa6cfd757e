package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func skipCommand(e *env.Env) *cobra.Command {
	return plainAnswer(e, "skip ID", "Leave a call out and tell the agent so",
		`deckhand inbox skip inbox_3q9 --reason "done by hand"`, "why; the agent sees it",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Skip_{Skip: &deckhandv1.AnswerInboxItemRequest_Skip{}}})
}
