package hold

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func listCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ListHoldsRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what is held, and why", Example: "deckhand hold list --all",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			holds, err := sdk.All(cmd.Context(), client.Control.ListHolds, func(token string) *deckhandv1.ListHoldsRequest {
				request.PageToken = token
				return request
			}, (*deckhandv1.ListHoldsResponse).GetHolds)
			if err != nil {
				return err
			}
			if len(holds) == 0 {
				e.Notef("nothing is held")
			}
			return output.List(e.Printer(), noun(), holds)
		},
	}
	cmd.Flags().BoolVar(&request.Released, "all", false, "those that were released too")
	return cmd
}
