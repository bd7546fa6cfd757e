package node

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
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
			var nodes []*deckhandv1.Node
			if err := sdk.Pages(func(token string) (string, error) {
				res, err := client.Nodes.ListNodes(cmd.Context(), connect.NewRequest(&deckhandv1.ListNodesRequest{PageToken: token}))
				if err != nil {
					return "", err
				}
				nodes = append(nodes, res.Msg.GetNodes()...)
				return res.Msg.GetNextPageToken(), nil
			}); err != nil {
				return err
			}
			if len(nodes) == 0 {
				e.Notef("no nodes yet; add this machine or another: deckhand node token")
			}
			return output.List(e.Printer(), noun(e), nodes)
		},
	}
}
