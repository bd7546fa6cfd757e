package node

import (
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
	reason string
}

func drainCommand(e *env.Env) *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Stop new tasks on a node; running tasks continue",
		Long: `Lets no new task start on a node until it is undrained. Running tasks continue;
those that wait say why.`,
		Example: `deckhand node drain web-1 --reason "disk is replaced on Friday"`,
		Args:    env.Args("NODE"),
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
			return output.Brief(e.Printer(), noun(e), res.GetNode())
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "shown to everybody who waits")
	return cmd
}
