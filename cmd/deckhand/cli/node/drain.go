package node

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
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
			if err := o.Check(cmd); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Nodes.DrainNode(cmd.Context(), &deckhandv1.DrainNodeRequest{NodeId: args[0], Reason: o.reason})
			if err != nil {
				return err
			}
			noteActive(e, res.GetActiveTasks())
			node := res.GetNode()
			if err := o.Drained(cmd, e, func(ctx context.Context) (int32, error) {
				now, err := client.Nodes.GetNode(ctx, &deckhandv1.GetNodeRequest{NodeId: node.GetId()})
				if err != nil {
					return 0, err
				}
				node = now.GetNode()
				return now.GetActiveTasks(), nil
			}); err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), node)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "shown to everybody who waits")
	o.Flags(cmd.Flags())
	return cmd
}
