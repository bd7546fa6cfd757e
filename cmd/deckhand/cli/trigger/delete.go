package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete TRIGGER", Short: "Delete a trigger",
		Long: "Its deliveries are kept as long as any. What it has started goes on.", Example: "deckhand trigger delete nightly", Args: env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Triggers.DeleteTrigger(cmd.Context(), &deckhandv1.DeleteTriggerRequest{TriggerId: args[0]}); err != nil {
				return err
			}
			e.Notef("trigger %s is deleted", args[0])
			return nil
		},
	}
}
