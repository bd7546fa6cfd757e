package worker

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// drainOptions are the flags of worker drain.
type drainOptions struct {
	reason string
}

func drainCommand(e *env.Env) *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use: "drain WORKER", Short: "Stop new tasks on a worker; running tasks continue",
		Example: `deckhand workers drain worker_3q9 --reason "new kernel"`, Args: env.Args("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Queue.DrainWorker, &deckhandv1.DrainWorkerRequest{WorkerId: args[0], Reason: o.reason}, (*deckhandv1.DrainWorkerResponse).GetWorker)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for others")
	return cmd
}
