package cli

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// vaultLook is how often --wait looks.
const vaultLook = time.Second

func (a *app) vaultCommand() *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Show which key seals, and how far a rotation is", Example: "deckhand vault show\ndeckhand vault show -o json", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			vault, err := vaultOf(cmd.Context(), client)
			if err != nil {
				return err
			}
			return output.One(a.printer(), vaultNoun, vault)
		},
	}
	var wait bool
	rotate := &cobra.Command{
		Use: "rotate", Short: "Have a new key seal what is secret",
		Long: `A new key seals from now on, on every hub. What the old ones have sealed is sealed
anew in the background, and then they are deleted: after a minute at the
earliest. Nothing stops meanwhile, and a hub that dies in between loses nothing.`,
		Example: "deckhand vault rotate\ndeckhand vault rotate --wait", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Vault.RotateVault(cmd.Context(), connect.NewRequest(&deckhandv1.RotateVaultRequest{}))
			if err != nil {
				return err
			}
			vault := res.Msg.GetVault()
			if !wait {
				a.notef("a new key seals; deckhand vault show says when the old ones are gone")
			}
			for wait && vault.GetRotatingSince() != nil {
				if err := backoff.Wait(cmd.Context(), vaultLook); err != nil {
					return err
				}
				if vault, err = vaultOf(cmd.Context(), client); err != nil {
					return err
				}
			}
			return output.One(a.printer(), vaultNoun, vault)
		},
	}
	rotate.Flags().BoolVar(&wait, "wait", false, "wait until the old keys are deleted")
	cmd := group("vault", "Look after the keys that seal what is secret", `
Provider keys, secrets of triggers and destinations, and the arguments of steps
are sealed in the database. The keys that seal them are there too, encrypted with
the key that the hubs' --keyset-key names. For operators of the installation.
`, `
deckhand vault show
deckhand vault rotate --wait
`)
	cmd.AddCommand(show, rotate)
	return cmd
}

func vaultOf(ctx context.Context, client *sdk.Client) (*deckhandv1.Vault, error) {
	res, err := client.Vault.GetVault(ctx, connect.NewRequest(&deckhandv1.GetVaultRequest{}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetVault(), nil
}

var vaultNoun = output.Noun[*deckhandv1.Vault]{
	Name: func(v *deckhandv1.Vault) string { return fmt.Sprint(v.GetPrimaryKey()) },
	Columns: []output.Column[*deckhandv1.Vault]{
		{Header: "seals with", Value: func(v *deckhandv1.Vault) string { return fmt.Sprint(v.GetPrimaryKey()) }},
		{Header: "keys", Value: func(v *deckhandv1.Vault) string { return fmt.Sprint(v.GetKeys()) }},
		{Header: "changed", Value: func(v *deckhandv1.Vault) string { return moment(v.GetChangedAt()) }},
		{Header: "rotating since", Value: func(v *deckhandv1.Vault) string { return moment(v.GetRotatingSince()) }},
		{Header: "by", Value: (*deckhandv1.Vault).GetRotatedBy},
	},
}
