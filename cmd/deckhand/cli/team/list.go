package team

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List teams", Example: "deckhand team list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "", client.Teams.ListTeams, func(token string) *deckhandv1.ListTeamsRequest {
				return &deckhandv1.ListTeamsRequest{PageToken: token}
			}, (*deckhandv1.ListTeamsResponse).GetTeams)
		},
	}
}
