package team

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/user"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func roleCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "role TEAM ROLE", Short: "Change a team's role", Long: user.RoleHelp, Example: "deckhand team role ops basic", Args: env.Args("TEAM", "ROLE"),
		RunE: run(e, func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			res, err := client.Teams.UpdateTeam(cmd.Context(), &deckhandv1.UpdateTeamRequest{TeamId: args[0], Role: args[1]})
			if err != nil {
				return nil, err
			}
			return res.GetTeam(), nil
		}),
	}
}
