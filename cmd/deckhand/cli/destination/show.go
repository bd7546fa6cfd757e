package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show DESTINATION", Short: "Show a destination", Example: "deckhand destination show chat", Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(), client.Destinations.GetDestination, &deckhandv1.GetDestinationRequest{DestinationId: args[0]}, (*deckhandv1.GetDestinationResponse).GetDestination)
		},
	}
}
