package cli

import (
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) teamCommand() *cobra.Command {
	request := &deckhandv1.CreateTeamRequest{}
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a team", Long: roleHelp, Example: "deckhand team create ops --role advanced", Args: takes("NAME"),
		RunE: a.teamRun(func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			request.Name = args[0]
			res, err := client.Teams.CreateTeam(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return nil, err
			}
			return res.Msg.GetTeam(), nil
		}),
	}
	create.Flags().StringVar(&request.Role, "role", "", "viewer (the default), basic, advanced or admin")
	list := &cobra.Command{
		Use: "list", Short: "List teams", Example: "deckhand team list", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			teams, err := sdk.All(cmd.Context(), client.Teams.ListTeams, func(token string) *deckhandv1.ListTeamsRequest {
				return &deckhandv1.ListTeamsRequest{PageToken: token}
			}, (*deckhandv1.ListTeamsResponse).GetTeams)
			if err != nil {
				return err
			}
			return output.List(a.printer(), a.teamNoun(), teams)
		},
	}
	role := &cobra.Command{
		Use: "role TEAM ROLE", Short: "Give a team another role", Long: roleHelp, Example: "deckhand team role ops basic", Args: takes("TEAM", "ROLE"),
		RunE: a.teamRun(func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			res, err := client.Teams.UpdateTeam(cmd.Context(), connect.NewRequest(&deckhandv1.UpdateTeamRequest{TeamId: args[0], Role: args[1]}))
			if err != nil {
				return nil, err
			}
			return res.Msg.GetTeam(), nil
		}),
	}
	add := &cobra.Command{
		Use: "add TEAM USER", Short: "Put somebody into a team", Example: "deckhand team add ops alice", Args: takes("TEAM", "USER"),
		RunE: a.teamRun(func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			res, err := client.Teams.AddTeamMember(cmd.Context(), connect.NewRequest(&deckhandv1.AddTeamMemberRequest{TeamId: args[0], UserId: args[1]}))
			if err != nil {
				return nil, err
			}
			return res.Msg.GetTeam(), nil
		}),
	}
	remove := &cobra.Command{
		Use: "remove TEAM USER", Short: "Take somebody out of a team", Example: "deckhand team remove ops alice", Args: takes("TEAM", "USER"),
		RunE: a.teamRun(func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error) {
			res, err := client.Teams.RemoveTeamMember(cmd.Context(), connect.NewRequest(&deckhandv1.RemoveTeamMemberRequest{TeamId: args[0], UserId: args[1]}))
			if err != nil {
				return nil, err
			}
			return res.Msg.GetTeam(), nil
		}),
	}
	end := &cobra.Command{
		Use: "delete TEAM", Short: "Delete a team", Long: "Its members keep their own roles.", Example: "deckhand team delete ops", Args: takes("TEAM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			_, err = client.Teams.DeleteTeam(cmd.Context(), connect.NewRequest(&deckhandv1.DeleteTeamRequest{TeamId: args[0]}))
			return err
		},
	}
	cmd := group("team", "Keep teams, whose members have at least their role", roleHelp, `
deckhand team create ops --role advanced
deckhand team add ops alice
`)
	cmd.AddCommand(create, list, role, add, remove, end)
	return cmd
}

// teamRun returns a command's run: a call of the API that answers a team.
func (a *app) teamRun(call func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := a.connect()
		if err != nil {
			return err
		}
		team, err := call(cmd, client, args)
		if err != nil {
			return err
		}
		return output.Brief(a.printer(), a.teamNoun(), team)
	}
}

func (a *app) teamNoun() output.Noun[*deckhandv1.Team] {
	return output.Noun[*deckhandv1.Team]{
		Name: (*deckhandv1.Team).GetName,
		Columns: []output.Column[*deckhandv1.Team]{
			{Header: "name", Value: (*deckhandv1.Team).GetName},
			{Header: "role", Value: (*deckhandv1.Team).GetRole},
			{Header: "members", Value: func(x *deckhandv1.Team) string { return strings.Join(x.GetMembers(), ", ") }, Max: 80},
			{Header: "age", Value: func(x *deckhandv1.Team) string { return a.age(x.GetCreatedAt()) }},
			{Header: "id", Value: (*deckhandv1.Team).GetId, Wide: true},
		},
	}
}
