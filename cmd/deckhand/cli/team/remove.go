package team

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func removeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "remove TEAM USER", Short: "Remove a user from a team", Example: "deckhand team remove ops alice", Args: env.Args("TEAM", "USER"),
		RunE: run(e, func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			res, err := client.Teams.RemoveTeamMember(cmd.Context(), &deckhandv1.RemoveTeamMemberRequest{TeamId: args[0], UserId: args[1]})
			if err != nil {
				return nil, err
			}
			return res.GetTeam(), nil
		}),
	}
}
