package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func killCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "kill EXEC", Short: "Kill a person's command and its child processes", Example: "deckhand node kill nexec_3q9",
		Args: env.Args("EXEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, execNoun(e), client.NodeExecs.KillNodeExec, &deckhandv1.KillNodeExecRequest{ExecId: args[0]}, (*deckhandv1.KillNodeExecResponse).GetExec)
		},
	}
}
