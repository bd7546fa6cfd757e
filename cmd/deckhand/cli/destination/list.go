package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List destinations", Example: "deckhand destination list -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			destinations, err := sdk.All(cmd.Context(), client.Destinations.ListDestinations, func(token string) *deckhandv1.ListDestinationsRequest {
				return &deckhandv1.ListDestinationsRequest{PageToken: token}
			}, (*deckhandv1.ListDestinationsResponse).GetDestinations)
			if err != nil {
				return err
			}
			if len(destinations) == 0 {
				e.Notef("No destinations yet. Create one: deckhand destination create NAME --webhook URL")
			}
			return output.List(e.Printer(), noun(), destinations)
		},
	}
}
