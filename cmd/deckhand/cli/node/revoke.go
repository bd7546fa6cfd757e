package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func revokeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NODE", Short: "Revoke a node's certificate and close its connection", Example: "deckhand node revoke web-1",
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Nodes.RevokeNode, &deckhandv1.RevokeNodeRequest{NodeId: args[0]}, (*deckhandv1.RevokeNodeResponse).GetNode)
		},
	}
}
