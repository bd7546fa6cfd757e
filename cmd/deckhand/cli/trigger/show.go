package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show TRIGGER", Short: "Show a trigger, and when it fires next", Example: "deckhand trigger show nightly", Args: env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(), client.Triggers.GetTrigger, &deckhandv1.GetTriggerRequest{TriggerId: args[0]}, (*deckhandv1.GetTriggerResponse).GetTrigger)
		},
	}
}
