package hold

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func releaseCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ReleaseHoldRequest{}
	cmd := &cobra.Command{
		Use: "release HOLD", Short: "Release a hold",
		Long:    `Lets what was held start again. Tasks that were killed stay cancelled.`,
		Example: `deckhand hold release hold_3q9 --reason "persona is mended"`,
		Args:    env.Args("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request.HoldId = args[0]
			return env.Change(cmd, e, noun(), client.Control.ReleaseHold, request, (*deckhandv1.ReleaseHoldResponse).GetHold)
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for the record")
	return cmd
}
