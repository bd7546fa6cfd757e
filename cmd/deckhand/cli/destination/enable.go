package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func enableCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "enable DESTINATION", Short: "Enable a destination",
		Long:    "It is told of what happens from now on, and gets what was pending.",
		Example: "deckhand destination enable chat", Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Destinations.EnableDestination, &deckhandv1.EnableDestinationRequest{DestinationId: args[0]}, (*deckhandv1.EnableDestinationResponse).GetDestination)
		},
	}
}
