package team

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete TEAM", Short: "Delete a team", Long: "Its members keep their own roles.", Example: "deckhand team delete ops", Args: env.Args("TEAM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			_, err = client.Teams.DeleteTeam(cmd.Context(), &deckhandv1.DeleteTeamRequest{TeamId: args[0]})
			return err
		},
	}
}
