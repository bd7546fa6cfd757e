package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func lockCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.LockNodeRequest{}
	cmd := &cobra.Command{
		Use: "lock NODE", Short: "Lock a machine for manual work",
		Long: `Takes a node for work on the machine itself, until you unlock it: no task starts
there meanwhile, and nobody else runs commands on the machine. Running tasks
go on. A command with --host takes the lock for itself when it is free.`,
		Example: `deckhand node lock web-1 --reason "kernel update"`,
		Args:    env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if request.GetReason() == "" {
				return env.Usage(cmd, "--reason is missing: those who wait are told it")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			request.NodeId = args[0]
			res, err := client.Nodes.LockNode(cmd.Context(), request)
			if err != nil {
				return err
			}
			noteActive(e, res.GetActiveTasks())
			return output.Brief(e.Printer(), lockNoun(), res.GetLock())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "reason, which is shown to everybody who waits")
	return cmd
}
