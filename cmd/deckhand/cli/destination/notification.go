package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func notificationCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "notification NOTIFICATION", Short: "Show a notification with its content", Example: "deckhand destination notification ntc_3q9", Args: env.Args("NOTIFICATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, notificationNoun(e), client.Destinations.GetNotification, &deckhandv1.GetNotificationRequest{NotificationId: args[0]}, (*deckhandv1.GetNotificationResponse).GetNotification)
		},
	}
}
