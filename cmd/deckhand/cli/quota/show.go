package quota

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the subscription plan and its usage", Example: "deckhand quota show", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Plans.GetPlan, &deckhandv1.GetPlanRequest{}, (*deckhandv1.GetPlanResponse).GetPlan)
		},
	}
}
