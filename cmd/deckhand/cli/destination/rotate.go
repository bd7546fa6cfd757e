package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func rotateCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.RotateDestinationSecretRequest{}
	cmd := &cobra.Command{
		Use: "rotate DESTINATION", Short: "Replace the secret of a webhook",
		Long:    "For a day, or as long as --keep says, messages are signed with the one before too.",
		Example: "deckhand destination rotate hooks --keep 1h", Args: env.Args("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			request.DestinationId = args[0]
			if request.Keep, err = env.Duration(cmd, "keep"); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.RotateDestinationSecret(cmd.Context(), request)
			if err != nil {
				return err
			}
			e.Notef("give the receiver this secret; it is not shown again:\n%s", res.GetSecret())
			return output.Brief(e.Printer(), noun(), res.GetDestination())
		},
	}
	cmd.Flags().Duration("keep", 0, "how long the secret before counts too, such as 1h; 0s ends it at once")
	return cmd
}
