package worker

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func drainCommand(e *env.Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "drain WORKER", Short: "Keep new tasks off a worker; those it has go on",
		Example: `deckhand workers drain worker_3q9 --reason "new kernel"`, Args: env.Args("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Queue.DrainWorker(cmd.Context(), connect.NewRequest(&deckhandv1.DrainWorkerRequest{WorkerId: args[0], Reason: reason}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), res.Msg.GetWorker())
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others")
	return cmd
}
