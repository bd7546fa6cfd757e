package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func updateCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.UpdateDestinationRequest{}
	flags := &specFlags{}
	cmd := &cobra.Command{
		Use: "update DESTINATION", Short: "Update a destination",
		Long:    "Changes what the flags name; the rest stays as it is, and so does its kind.\n\n" + eventsHelp,
		Example: `deckhand destination update chat --events failures,escalations`,
		Args:    env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			is, err := client.Destinations.GetDestination(cmd.Context(), &deckhandv1.GetDestinationRequest{DestinationId: args[0]})
			if err != nil {
				return err
			}
			request.DestinationId, request.Spec = is.GetDestination().GetId(), is.GetDestination().GetSpec()
			if err := flags.apply(cmd, request.GetSpec()); err != nil {
				return err
			}
			if request.Secret, err = env.ReadSecret(e, flags.key); err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Destinations.UpdateDestination, request, (*deckhandv1.UpdateDestinationResponse).GetDestination)
		},
	}
	flags.register(cmd)
	return cmd
}
