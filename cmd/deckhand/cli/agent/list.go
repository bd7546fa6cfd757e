package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	deleted := false
	cmd := &cobra.Command{
		Use: "list", Short: "List the agents", Example: "deckhand agent list -o wide\ndeckhand agent list --deleted",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			var agents []*deckhandv1.Agent
			for token := ""; ; {
				res, err := client.Agents.ListAgents(cmd.Context(), &deckhandv1.ListAgentsRequest{PageToken: token, Deleted: deleted})
				if err != nil {
					return err
				}
				agents = append(agents, res.GetAgents()...)
				if token = res.GetNextPageToken(); token == "" {
					break
				}
			}
			if len(agents) == 0 && !deleted {
				e.Notef("no agents yet; make one from a persona file: deckhand agent apply -f FILE")
			}
			return output.List(e.Printer(), noun(e), agents)
		},
	}
	cmd.Flags().BoolVar(&deleted, "deleted", false, "those whose deletion can be undone, instead of the others")
	return cmd
}
