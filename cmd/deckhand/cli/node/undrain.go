package node

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func undrainCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "Let tasks start on a node again", Example: "deckhand node undrain web-1",
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Nodes.UndrainNode(cmd.Context(), connect.NewRequest(&deckhandv1.UndrainNodeRequest{NodeId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), res.Msg.GetNode())
		},
	}
}
