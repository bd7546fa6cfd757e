package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func fireCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.FireTriggerRequest{}
	cmd := &cobra.Command{
		Use: `fire TRIGGER ["goal"]`, Short: "Fire a trigger by hand", Example: `deckhand trigger fire nightly
deckhand trigger fire nightly "Only look at the disks."`,
		Args: env.Args("TRIGGER", "[GOAL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.TriggerId = args[0]
			if len(args) > 1 {
				request.Goal = args[1]
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, deliveryNoun(e), client.Triggers.FireTrigger, request, (*deckhandv1.FireTriggerResponse).GetDelivery)
		},
	}
	cmd.Flags().StringVar(&request.IdempotencyKey, "idempotency-key", "", "key that identifies this run: a repetition with the same key starts nothing")
	return cmd
}
