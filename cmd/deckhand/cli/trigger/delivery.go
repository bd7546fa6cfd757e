package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func deliveryCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delivery DELIVERY", Short: "Show a delivery with its payload", Example: "deckhand trigger delivery dlv_3q9", Args: env.Args("DELIVERY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, deliveryNoun(e), client.Triggers.GetDelivery, &deckhandv1.GetDeliveryRequest{DeliveryId: args[0]}, (*deckhandv1.GetDeliveryResponse).GetDelivery)
		},
	}
}
