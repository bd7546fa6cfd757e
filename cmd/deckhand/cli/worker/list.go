package worker

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List active workers", Example: "deckhand workers list",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "", client.Queue.ListWorkers, func(token string) *deckhandv1.ListWorkersRequest {
				return &deckhandv1.ListWorkersRequest{PageToken: token}
			}, (*deckhandv1.ListWorkersResponse).GetWorkers)
		},
	}
}
