package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func rejectCommand(e *env.Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "reject ID...", Short: "Reject calls or questions (the agent continues without them); reject a review (undo its changes and fail the task)",
		Example: `deckhand inbox reject inbox_3q9 --reason "not on a Friday"`, Args: env.Args("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if err := send(cmd.Context(), e, &deckhandv1.AnswerInboxItemRequest{
					ItemId: id, Reason: reason, Answer: &deckhandv1.AnswerInboxItemRequest_Reject_{Reject: &deckhandv1.AnswerInboxItemRequest_Reject{}},
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the agent sees it")
	return cmd
}
