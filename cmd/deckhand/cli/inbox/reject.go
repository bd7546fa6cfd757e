package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func rejectCommand(e *env.Env) *cobra.Command {
	return plainAnswer(e, "reject ID", "Reject a call or question (the agent continues without it); reject a review (undo its changes and fail the task)",
		`deckhand inbox reject inbox_3q9 --reason "not on a Friday"`, "why; the agent sees it",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Reject_{Reject: &deckhandv1.AnswerInboxItemRequest_Reject{}}})
}
