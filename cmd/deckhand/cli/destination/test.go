package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func testCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "test DESTINATION", Short: "Send a test notification and show the result",
		Long: "Exit code 1 when it was not taken.", Example: "deckhand destination test chat", Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.TestDestination(cmd.Context(), &deckhandv1.TestDestinationRequest{DestinationId: args[0]})
			if err != nil {
				return err
			}
			if err := output.Brief(e.Printer(), notificationNoun(e), res.GetNotification()); err != nil {
				return err
			}
			if n := res.GetNotification(); n.GetState() != deckhandv1.NotificationState_NOTIFICATION_STATE_DELIVERED {
				e.Notef("it was not taken: %s", n.GetError())
				return env.Status(env.ExitFailed)
			}
			return nil
		},
	}
}
