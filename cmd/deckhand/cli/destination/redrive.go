package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// redriveOptions are the flags of destination redrive.
type redriveOptions struct {
	all string
}

func redriveCommand(e *env.Env) *cobra.Command {
	var o redriveOptions
	cmd := &cobra.Command{
		Use: "redrive (NOTIFICATION | --all DESTINATION)", Short: "Send failed notifications again",
		Long: "Under the same ids, for another day.", Example: `deckhand destination redrive ntc_3q9
deckhand destination redrive --all chat`,
		Args: env.Args("[NOTIFICATION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (o.all == "") {
				return env.Usage(cmd, "give a NOTIFICATION, or --all DESTINATION")
			}
			request := &deckhandv1.RedriveNotificationsRequest{Which: &deckhandv1.RedriveNotificationsRequest_DestinationId{DestinationId: o.all}}
			if o.all == "" {
				request.Which = &deckhandv1.RedriveNotificationsRequest_NotificationId{NotificationId: args[0]}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.RedriveNotifications(cmd.Context(), request)
			if err != nil {
				return err
			}
			e.Notef("%d notifications are sent again", res.GetRedriven())
			return nil
		},
	}
	cmd.Flags().StringVar(&o.all, "all", "", "all dead notifications of this destination")
	return cmd
}
