// Package passkey is the command "deckhand passkey": it lists users' passkeys, and
// removes those that were lost. They are registered in the console, by a browser.
package passkey

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand passkey".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("passkey", "List users' passkeys and remove lost ones", `
Passkeys log people in, and prove that a person was there when they approved
something dangerous. They are registered in the console: Settings, Passkeys.
`, `
deckhand passkey list alice
deckhand passkey delete passkey_3q9
`)
	cmd.AddCommand(listCommand(e), deleteCommand(e))
	return cmd
}

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list [USER]", Short: "List a user's passkeys", Long: "Your own without USER. Only administrators list those of others.",
		Example: "deckhand passkey list\ndeckhand passkey list alice", Args: env.Args("[USER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request := &deckhandv1.ListPasskeysRequest{}
			if len(args) == 1 {
				request.User = args[0]
			}
			res, err := client.Passkeys.ListPasskeys(cmd.Context(), request)
			if err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), res.GetPasskeys())
		},
	}
}

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete PASSKEY", Short: "Remove a passkey",
		Long: `Removes a passkey that was lost, on the hub's machine, with the hub's own token
(sudo). Other tokens are refused. A person who still has another passkey removes one in
the console.`,
		Example: "deckhand passkey delete passkey_3q9", Args: env.Args("PASSKEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			_, err = client.Passkeys.DeletePasskey(cmd.Context(), &deckhandv1.DeletePasskeyRequest{PasskeyId: args[0]})
			return err
		},
	}
}

func noun(e *env.Env) output.Noun[*deckhandv1.Passkey] {
	return output.Noun[*deckhandv1.Passkey]{
		Name: (*deckhandv1.Passkey).GetId,
		Columns: []output.Column[*deckhandv1.Passkey]{
			{Header: "id", Value: (*deckhandv1.Passkey).GetId},
			{Header: "name", Value: (*deckhandv1.Passkey).GetName, Max: 60},
			{Header: "user", Value: (*deckhandv1.Passkey).GetUserName},
			{Header: "age", Value: func(x *deckhandv1.Passkey) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "used", Value: func(x *deckhandv1.Passkey) string { return e.Age(x.GetUsedAt()) }},
			{Header: "key-sha256", Value: (*deckhandv1.Passkey).GetKeySha256, Wide: true},
		},
	}
}
