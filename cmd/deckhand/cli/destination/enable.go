package destination

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func enableCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "enable DESTINATION", Short: "Have a destination told again",
		Long:    "It is told of what happens from now on, and gets what was pending.",
		Example: "deckhand destination enable chat", Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.EnableDestination(cmd.Context(), connect.NewRequest(&deckhandv1.EnableDestinationRequest{DestinationId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(), res.Msg.GetDestination())
		},
	}
}
