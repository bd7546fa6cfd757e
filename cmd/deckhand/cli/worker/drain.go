package worker

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// drainOptions are the flags of worker drain.
type drainOptions struct {
	env.Wait

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
			res, err := client.Queue.DrainWorker(cmd.Context(), &deckhandv1.DrainWorkerRequest{WorkerId: args[0], Reason: o.reason})
			if err != nil {
				return err
			}
			if err := o.Drained(cmd.Context(), e, func(ctx context.Context) (int, error) { return active(ctx, client, res.GetWorker().GetId()) }); err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), res.GetWorker())
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for others")
	o.Flags(cmd.Flags())
	return cmd
}

// active returns how many tasks a worker runs: none if the hub no longer knows it.
func active(ctx context.Context, client *sdk.Client, workerID string) (int, error) {
	req := &deckhandv1.ListWorkersRequest{PageSize: 500}
	for {
		res, err := client.Queue.ListWorkers(ctx, req)
		if err != nil {
			return 0, err
		}
		for _, w := range res.GetWorkers() {
			if w.GetId() == workerID {
				return int(w.GetActive()), nil
			}
		}
		if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
			return 0, nil
		}
	}
}
