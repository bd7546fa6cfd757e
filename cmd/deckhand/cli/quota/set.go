package quota

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// setOptions are the flags of quota set.
type setOptions struct {
	runs int64
}

func setCommand(e *env.Env) *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Set the organisation's subscription plan",
		Long: `The plans, for a month each:

  free          50 runs of 5 minutes, safe tools
  starter       500 runs of 10 minutes, safe and moderate tools
  professional  2 500 runs of 15 minutes, dangerous tools too, which ask
  enterprise    any number of runs of 30 minutes, or as many as --runs says; what
                is left of those is added to the next month's
  self-hosted   no limit

It holds from the next run on.`,
		Example: "deckhand quota set starter\ndeckhand quota set enterprise --runs 10000\ndeckhand quota set self-hosted", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.SetPlanRequest{Name: args[0]}
			if cmd.Flags().Changed("runs") {
				request.Runs = &o.runs
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Plans.SetPlan, request, (*deckhandv1.SetPlanResponse).GetPlan)
		},
	}
	cmd.Flags().Int64Var(&o.runs, "runs", 0, "runs a month (enterprise only)")
	return cmd
}
