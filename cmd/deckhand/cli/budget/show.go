package budget

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// showOptions are the flags of budget show.
type showOptions struct {
	every string
}

func showCommand(e *env.Env) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use: "show [SCOPE [NAME]]", Short: "Show budgets and spending",
		Example: `deckhand budget show
deckhand budget show user ann --every month
deckhand budget show task task_3q9`,
		Args: env.Args("[SCOPE]", "[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.GetBudgetRequest{Every: o.every}
			if len(args) > 0 {
				var err error
				if request.Scope, request.ObjectId, _, err = scopeOf(cmd, args); err != nil {
					return err
				}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return env.List(cmd, e, noun(), "", client.Budgets.ListBudgets, func(token string) *deckhandv1.ListBudgetsRequest {
					return &deckhandv1.ListBudgetsRequest{PageToken: token}
				}, (*deckhandv1.ListBudgetsResponse).GetBudgets)
			}
			return env.Change(cmd, e, noun(), client.Budgets.GetBudget, request, (*deckhandv1.GetBudgetResponse).GetBudget)
		},
	}
	cmd.Flags().StringVar(&o.every, "every", "", "day or month, for users and the organisation")
	return cmd
}
