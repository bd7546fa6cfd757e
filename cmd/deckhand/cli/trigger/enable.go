package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func enableCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "enable TRIGGER", Short: "Enable a trigger", Example: "deckhand trigger enable nightly", Args: env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Triggers.EnableTrigger, &deckhandv1.EnableTriggerRequest{TriggerId: args[0]}, (*deckhandv1.EnableTriggerResponse).GetTrigger)
		},
	}
}
