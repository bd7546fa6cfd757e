// Package vault is the command "deckhand vault": it shows and rotates the keys
// that encrypt secrets in the database.
package vault

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand vault".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("vault", "Manage the keys that encrypt secrets", `
Provider keys, secrets of triggers and destinations, and the arguments of steps
are sealed in the database. The keys that seal them are there too, encrypted with
the key that the hubs' --keyset-key names. For operators of the installation.
`, `
deckhand vault show
deckhand vault rotate --wait
sudo deckhand vault rotate-root
`)
	cmd.AddCommand(showCommand(e), rotateCommand(e))
	return cmd
}

func get(ctx context.Context, client *sdk.Client) (*deckhandv1.Vault, error) {
	res, err := client.Vault.GetVault(ctx, &deckhandv1.GetVaultRequest{})
	if err != nil {
		return nil, err
	}
	return res.GetVault(), nil
}

var noun = output.Noun[*deckhandv1.Vault]{
	Name: func(v *deckhandv1.Vault) string { return fmt.Sprint(v.GetPrimaryKey()) },
	Columns: []output.Column[*deckhandv1.Vault]{
		{Header: "seals with", Value: func(v *deckhandv1.Vault) string { return fmt.Sprint(v.GetPrimaryKey()) }},
		{Header: "keys", Value: func(v *deckhandv1.Vault) string { return fmt.Sprint(v.GetKeys()) }},
		{Header: "changed", Value: func(v *deckhandv1.Vault) string { return output.Moment(v.GetChangedAt()) }},
		{Header: "rotating since", Value: func(v *deckhandv1.Vault) string { return output.Moment(v.GetRotatingSince()) }},
		{Header: "by", Value: (*deckhandv1.Vault).GetRotatedBy},
	},
}
