package quota

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// setOptions are the flags of quota set.
type setOptions struct {
	runs      int64
	cycleDay  int32
	hardBlock bool
}

func setCommand(e *env.Env) *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use: "set [NAME]", Short: "Set the organisation's subscription plan and billing period",
		Long: `The plans, for a month each:

  free          50 runs of 5 minutes, safe tools
  starter       500 runs of 10 minutes, safe and moderate tools
  professional  2 500 runs of 15 minutes, dangerous tools too, which ask
  enterprise    any number of runs of 30 minutes, or as many as --runs says; what
                is left of those is added to the next month's
  self-hosted   no limit

It holds from the next run on. Without NAME the plan stays as it is.

--cycle-day is the day of the month on which a billing period begins, at midnight in UTC.
What was used is counted by day, so changing the day does not reset the count. With
--hard-block, a submission for which no run is left is refused; otherwise its task waits in the
queue. Tasks of triggers and subtasks wait in any case.`,
		Example: "deckhand quota set starter\ndeckhand quota set enterprise --runs 10000\ndeckhand quota set self-hosted\ndeckhand quota set --cycle-day 15 --hard-block", Args: env.Args("[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.SetPlanRequest{}
			if len(args) > 0 {
				request.Name = args[0]
			}
			if cmd.Flags().Changed("cycle-day") {
				if o.cycleDay < 1 || o.cycleDay > 28 {
					return env.Usage(cmd, "--cycle-day is %d, give a day of the month from 1 to 28", o.cycleDay)
				}
				request.CycleDay = &o.cycleDay
			}
			if cmd.Flags().Changed("hard-block") {
				request.HardBlock = &o.hardBlock
			}
			if cmd.Flags().Changed("runs") {
				request.Runs = &o.runs
			}
			if proto.Equal(request, &deckhandv1.SetPlanRequest{}) {
				return env.Usage(cmd, "nothing is given that is to change")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Plans.SetPlan, request, (*deckhandv1.SetPlanResponse).GetPlan)
		},
	}
	cmd.Flags().Int64Var(&o.runs, "runs", 0, "runs a month (enterprise only)")
	cmd.Flags().Int32Var(&o.cycleDay, "cycle-day", 1, "day of the month on which a billing period begins, 1 to 28")
	cmd.Flags().BoolVar(&o.hardBlock, "hard-block", false, "refuse submissions when no run is left")
	return cmd
}
