package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the nodes", Example: "deckhand node list -o wide",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "no nodes yet; add this machine or another: deckhand node token", client.Nodes.ListNodes, func(token string) *deckhandv1.ListNodesRequest {
				return &deckhandv1.ListNodesRequest{PageToken: token}
			}, (*deckhandv1.ListNodesResponse).GetNodes)
		},
	}
}
