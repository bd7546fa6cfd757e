package budget

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func showCommand(e *env.Env) *cobra.Command {
	var every string
	cmd := &cobra.Command{
		Use: "show [SCOPE [NAME]]", Short: "Show budgets, and what of them is spent",
		Example: `deckhand budget show
deckhand budget show user ann --every month
deckhand budget show task task_3q9`,
		Args: env.Args("[SCOPE]", "[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.GetBudgetRequest{Every: every}
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
				budgets, err := sdk.All(cmd.Context(), client.Budgets.ListBudgets, func(token string) *deckhandv1.ListBudgetsRequest {
					return &deckhandv1.ListBudgetsRequest{PageToken: token}
				}, (*deckhandv1.ListBudgetsResponse).GetBudgets)
				if err != nil {
					return err
				}
				return output.List(e.Printer(), noun(), budgets)
			}
			res, err := client.Budgets.GetBudget(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(), res.Msg.GetBudget())
		},
	}
	cmd.Flags().StringVar(&every, "every", "", "day or month, for users and the organisation")
	return cmd
}
