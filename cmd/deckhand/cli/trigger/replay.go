package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func replayCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "replay DELIVERY", Short: "Replay a delivery",
		Long:    "It goes through filter and mapping as they are now, and is marked as a replay.",
		Example: "deckhand trigger replay dlv_3q9", Args: env.Args("DELIVERY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, deliveryNoun(e), client.Triggers.ReplayDelivery, &deckhandv1.ReplayDeliveryRequest{DeliveryId: args[0]}, (*deckhandv1.ReplayDeliveryResponse).GetDelivery)
		},
	}
}
