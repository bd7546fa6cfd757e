package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show NODE", Short: "Show a node", Example: "deckhand node show web-1",
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(e), client.Nodes.GetNode, &deckhandv1.GetNodeRequest{NodeId: args[0]}, (*deckhandv1.GetNodeResponse).GetNode)
		},
	}
}
