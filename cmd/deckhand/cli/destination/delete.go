package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete DESTINATION", Short: "Delete a destination",
		Long:    "What is pending is not sent. Its notifications are kept as long as any.",
		Example: "deckhand destination delete chat", Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Destinations.DeleteDestination(cmd.Context(), &deckhandv1.DeleteDestinationRequest{DestinationId: args[0]}); err != nil {
				return err
			}
			e.Notef("destination %s is deleted", args[0])
			return nil
		},
	}
}
