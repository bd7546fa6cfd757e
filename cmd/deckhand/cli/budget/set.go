package budget

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// setOptions are the flags of budget set.
type setOptions struct {
	every string
}

func setCommand(e *env.Env) *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use: "set SCOPE [NAME] USD|none|default", Short: "Set a budget in US dollars",
		Long: `Holds from the next call on; a task that paused for want of budget goes on with
deckhand task resume. "none" is no limit, "default" what holds where nobody has
set one: 50 a day and 500 a month for the organisation, and the persona's limit
for a task and its lineage.`,
		Example: `deckhand budget set organisation 20 --every day
deckhand budget set user ann 100 --every month
deckhand budget set task task_3q9 15
deckhand budget set organisation default --every day`,
		Args: env.Args("SCOPE", "[NAME]", "[USD]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, object, rest, err := scopeOf(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) != 1 {
				return env.Usage(cmd, "give one limit: US dollars, none or default")
			}
			request := &deckhandv1.SetBudgetRequest{Scope: scope, ObjectId: object, Every: o.every}
			switch rest[0] {
			case "none":
				request.Limit = &deckhandv1.SetBudgetRequest_Unlimited{Unlimited: true}
			case "default":
				request.Limit = &deckhandv1.SetBudgetRequest_Reset_{Reset_: true}
			default:
				dollars, err := strconv.ParseFloat(strings.TrimPrefix(rest[0], "$"), 64)
				if err != nil || dollars < 0 || dollars > 1e9 || math.IsNaN(dollars) {
					return env.Usage(cmd, "%q is no limit: give US dollars, none or default", rest[0])
				}
				request.Limit = &deckhandv1.SetBudgetRequest_LimitMicros{LimitMicros: int64(math.Round(dollars * 1e6))}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Budgets.SetBudget, request, (*deckhandv1.SetBudgetResponse).GetBudget)
		},
	}
	cmd.Flags().StringVar(&o.every, "every", "", "day or month, for users and the organisation")
	return cmd
}
