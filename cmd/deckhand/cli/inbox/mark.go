package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func markCommand(e *env.Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "mark ID succeeded|failed", Short: "Say what came of a call with an unknown outcome",
		Example: `deckhand inbox mark inbox_3q9 succeeded --reason "the mail is in the outbox"`,
		Args:    env.Args("ID", "succeeded|failed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] != "succeeded" && args[1] != "failed" {
				return env.Usage(cmd, "%q is no outcome, give succeeded or failed", args[1])
			}
			return send(cmd.Context(), e, &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason,
				Answer: &deckhandv1.AnswerInboxItemRequest_Resolve_{Resolve: &deckhandv1.AnswerInboxItemRequest_Resolve{Succeeded: args[1] == "succeeded"}},
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "how that is known; the agent sees it")
	return cmd
}
