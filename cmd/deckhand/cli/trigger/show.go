package trigger

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show TRIGGER", Short: "Show a trigger, and when it fires next", Example: "deckhand trigger show nightly", Args: env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Triggers.GetTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.GetTriggerRequest{TriggerId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun(), res.Msg.GetTrigger())
		},
	}
}
