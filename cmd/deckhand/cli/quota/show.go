package quota

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the plan, and what of it is used", Example: "deckhand quota show", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Plans.GetPlan(cmd.Context(), connect.NewRequest(&deckhandv1.GetPlanRequest{}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(), res.Msg.GetPlan())
		},
	}
}
