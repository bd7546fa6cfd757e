package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func unlockCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.UnlockNodeRequest{}
	cmd := &cobra.Command{
		Use: "unlock NODE", Short: "Unlock a machine", Example: "deckhand node unlock web-1",
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request.NodeId = args[0]
			res, err := client.Nodes.UnlockNode(cmd.Context(), request)
			if err != nil {
				return err
			}
			e.Notef("node %s is free", termsafe.Line(res.GetNode().GetName()))
			return output.Brief(e.Printer(), noun(e), res.GetNode())
		},
	}
	cmd.Flags().BoolVar(&request.Force, "force", false, "also when somebody else holds it, or a command runs under it")
	return cmd
}
