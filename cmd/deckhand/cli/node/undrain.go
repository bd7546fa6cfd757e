package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func undrainCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "Allow new tasks on a node again", Example: "deckhand node undrain web-1",
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Nodes.UndrainNode, &deckhandv1.UndrainNodeRequest{NodeId: args[0]}, (*deckhandv1.UndrainNodeResponse).GetNode)
		},
	}
}
