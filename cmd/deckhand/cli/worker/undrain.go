package worker

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func undrainCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undrain WORKER", Short: "Allow new tasks on a worker again", Example: "deckhand workers undrain worker_3q9",
		Args: env.Args("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Queue.UndrainWorker, &deckhandv1.UndrainWorkerRequest{WorkerId: args[0]}, (*deckhandv1.UndrainWorkerResponse).GetWorker)
		},
	}
}
