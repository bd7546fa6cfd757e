package team

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/user"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func createCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.CreateTeamRequest{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a team", Long: user.RoleHelp, Example: "deckhand team create ops --role advanced", Args: env.Args("NAME"),
		RunE: run(e, func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			request.Name = args[0]
			res, err := client.Teams.CreateTeam(cmd.Context(), request)
			if err != nil {
				return nil, err
			}
			return res.GetTeam(), nil
		}),
	}
	cmd.Flags().StringVar(&request.Role, "role", "", "viewer (the default), basic, advanced or admin")
	return cmd
}
