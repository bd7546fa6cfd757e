package destination

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func disableCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.DisableDestinationRequest{}
	cmd := &cobra.Command{
		Use: "disable DESTINATION", Short: "Send nothing to a destination",
		Long:    "What is pending waits, until its time is over.",
		Example: `deckhand destination disable chat --reason "nobody is there until Monday"`, Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.DestinationId = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.DisableDestination(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(), res.Msg.GetDestination())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for others to read")
	return cmd
}
