// Package user is the command "deckhand user": it manages the people who use
// the hub.
package user

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand user".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("user", "Manage users", RoleHelp, `
deckhand user create alice --role basic
deckhand user password alice --password-file alice-password
deckhand user disable alice
`)
	cmd.AddCommand(createCommand(e), listCommand(e), showCommand(e), roleCommand(e),
		disableCommand(e, true), disableCommand(e, false), passwordCommand(e))
	return cmd
}

// RoleHelp explains the roles of users and teams.
const RoleHelp = `Roles are viewer (reads), basic (safe tools), advanced (safe and moderate tools)
and admin (all). A user has the highest of their own role and those of their
teams.`

// run returns a RunE that makes a call of the API and prints the user that it
// returns.
func run(e *env.Env, call func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.User, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := e.Client()
		if err != nil {
			return err
		}
		user, err := call(cmd, client, args)
		if err != nil {
			return err
		}
		return output.Brief(e.Printer(), noun(e), user)
	}
}

// update is run for the call UpdateUser.
func update(e *env.Env, request func(args []string) *deckhandv1.UpdateUserRequest) func(*cobra.Command, []string) error {
	return run(e, func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.User, error) {
		res, err := client.Users.UpdateUser(cmd.Context(), request(args))
		if err != nil {
			return nil, err
		}
		return res.GetUser(), nil
	})
}

func noun(e *env.Env) output.Noun[*deckhandv1.User] {
	return output.Noun[*deckhandv1.User]{
		Name: (*deckhandv1.User).GetName,
		Columns: []output.Column[*deckhandv1.User]{
			{Header: "name", Value: (*deckhandv1.User).GetName},
			{Header: "role", Value: (*deckhandv1.User).GetEffectiveRole},
			{Header: "teams", Value: func(x *deckhandv1.User) string { return strings.Join(x.GetTeams(), ", ") }},
			{Header: "state", Value: func(x *deckhandv1.User) string {
				if x.GetDisabled() {
					return "disabled"
				}
				return "enabled"
			}},
			{Header: "age", Value: func(x *deckhandv1.User) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "own role", Value: (*deckhandv1.User).GetRole, Wide: true},
			{Header: "id", Value: (*deckhandv1.User).GetId, Wide: true},
		},
	}
}
