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
			if err := o.Check(cmd); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Queue.DrainWorker(cmd.Context(), &deckhandv1.DrainWorkerRequest{WorkerId: args[0], Reason: o.reason})
			if err != nil {
				return err
			}
			worker := res.GetWorker()
			if err := o.Drained(cmd, e, func(ctx context.Context) (int32, error) {
				now, err := find(ctx, client, worker.GetId())
				if err != nil || now == nil {
					return 0, err // a worker that is gone runs nothing
				}
				worker = now
				return now.GetActive(), nil
			}); err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), worker)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for others")
	o.Flags(cmd.Flags())
	return cmd
}

// find returns a worker, nil if the hub does not know it.
func find(ctx context.Context, client *sdk.Client, workerID string) (*deckhandv1.Worker, error) {
	req := &deckhandv1.ListWorkersRequest{PageSize: 500}
	for {
		res, err := client.Queue.ListWorkers(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, w := range res.GetWorkers() {
			if w.GetId() == workerID {
				return w, nil
			}
		}
		if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
			return nil, nil
		}
	}
}
