// Package team is the command "deckhand team": it manages teams and their
// members.
package team

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/user"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand team".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("team", "Manage teams, whose members have at least the team's role", user.RoleHelp, `
deckhand team create ops --role advanced
deckhand team add ops alice
`)
	cmd.AddCommand(createCommand(e), listCommand(e), roleCommand(e), addCommand(e), removeCommand(e), deleteCommand(e))
	return cmd
}

// run returns a RunE that makes a call of the API and prints the team that it
// returns.
func run(e *env.Env, call func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.Team, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := e.Client()
		if err != nil {
			return err
		}
		team, err := call(cmd, client, args)
		if err != nil {
			return err
		}
		return output.Brief(e.Printer(), noun(e), team)
	}
}

func noun(e *env.Env) output.Noun[*deckhandv1.Team] {
	return output.Noun[*deckhandv1.Team]{
		Name: (*deckhandv1.Team).GetName,
		Columns: []output.Column[*deckhandv1.Team]{
			{Header: "name", Value: (*deckhandv1.Team).GetName},
			{Header: "role", Value: (*deckhandv1.Team).GetRole},
			{Header: "members", Value: func(x *deckhandv1.Team) string { return strings.Join(x.GetMembers(), ", ") }, Max: 80},
			{Header: "age", Value: func(x *deckhandv1.Team) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "id", Value: (*deckhandv1.Team).GetId, Wide: true},
		},
	}
}
