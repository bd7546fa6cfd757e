package team

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List teams", Example: "deckhand team list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			teams, err := sdk.All(cmd.Context(), client.Teams.ListTeams, func(token string) *deckhandv1.ListTeamsRequest {
				return &deckhandv1.ListTeamsRequest{PageToken: token}
			}, (*deckhandv1.ListTeamsResponse).GetTeams)
			if err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), teams)
		},
	}
}
