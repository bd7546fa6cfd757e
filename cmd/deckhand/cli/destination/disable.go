package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func disableCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.DisableDestinationRequest{}
	cmd := &cobra.Command{
		Use: "disable DESTINATION", Short: "Disable a destination",
		Long:    "What is pending waits, until its time is over.",
		Example: `deckhand destination disable chat --reason "nobody is there until Monday"`, Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.DestinationId = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Destinations.DisableDestination, request, (*deckhandv1.DisableDestinationResponse).GetDestination)
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for others to read")
	return cmd
}
