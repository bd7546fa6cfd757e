package worker

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the workers that were heard lately", Example: "deckhand workers list",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			workers, err := sdk.All(cmd.Context(), client.Queue.ListWorkers, func(token string) *deckhandv1.ListWorkersRequest {
				return &deckhandv1.ListWorkersRequest{PageToken: token}
			}, (*deckhandv1.ListWorkersResponse).GetWorkers)
			if err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), workers)
		},
	}
}
