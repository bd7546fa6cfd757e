package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List destinations", Example: "deckhand destination list -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(), "No destinations yet. Create one: deckhand destination create NAME --webhook URL", client.Destinations.ListDestinations, func(token string) *deckhandv1.ListDestinationsRequest {
				return &deckhandv1.ListDestinationsRequest{PageToken: token}
			}, (*deckhandv1.ListDestinationsResponse).GetDestinations)
		},
	}
}
