package worker

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func undrainCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undrain WORKER", Short: "Let a worker take tasks again", Example: "deckhand workers undrain worker_3q9",
		Args: env.Args("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Queue.UndrainWorker(cmd.Context(), connect.NewRequest(&deckhandv1.UndrainWorkerRequest{WorkerId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), res.Msg.GetWorker())
		},
	}
}
