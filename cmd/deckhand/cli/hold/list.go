package hold

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ListHoldsRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List holds and their reasons", Example: "deckhand hold list --all",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(), "nothing is held", client.Control.ListHolds, func(token string) *deckhandv1.ListHoldsRequest {
				request.PageToken = token
				return request
			}, (*deckhandv1.ListHoldsResponse).GetHolds)
		},
	}
	cmd.Flags().BoolVar(&request.Released, "all", false, "those that were released too")
	return cmd
}
