package node

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// noteActive tells of the tasks that a drain or a lock does not end.
func noteActive(e *env.Env, active int32) {
	switch {
	case active == 1:
		e.Notef("one task is running there and continues; see: deckhand task list --state running")
	case active > 1:
		e.Notef("%d tasks are running there and continue; see: deckhand task list --state running", active)
	}
}

// drainOptions are the flags of node drain.
type drainOptions struct {
	env.Wait

	reason string
}

func drainCommand(e *env.Env) *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Stop new tasks on a node; running tasks continue",
		Long: `Lets no new task start on a node until it is undrained. Running tasks continue;
those that wait say why. With --wait the command returns when none runs any more.`,
		Example: `deckhand node drain web-1 --reason "disk is replaced on Friday"
deckhand node drain web-1 --wait --timeout 1h`,
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Nodes.DrainNode(cmd.Context(), &deckhandv1.DrainNodeRequest{NodeId: args[0], Reason: o.reason})
			if err != nil {
				return err
			}
			noteActive(e, res.GetActiveTasks())
			if err := o.Drained(cmd.Context(), e, func(ctx context.Context) (int, error) { return running(ctx, client, res.GetNode().GetId()) }); err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), res.GetNode())
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "shown to everybody who waits")
	o.Flags(cmd.Flags())
	return cmd
}

// running counts the tasks that run on a node.
func running(ctx context.Context, client *sdk.Client, nodeID string) (int, error) {
	n := 0
	req := &deckhandv1.ListTasksRequest{
		PageSize: 500, States: []deckhandv1.TaskState{deckhandv1.TaskState_TASK_STATE_STARTING, deckhandv1.TaskState_TASK_STATE_RUNNING},
	}
	for {
		res, err := client.Tasks.ListTasks(ctx, req)
		if err != nil {
			return 0, err
		}
		for _, t := range res.GetTasks() {
			if t.GetNodeId() == nodeID {
				n++
			}
		}
		if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
			return n, nil
		}
	}
}
