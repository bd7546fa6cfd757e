package cli

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
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
sudo deckhand vault rotate-root
`)
	cmd.AddCommand(show, rotate, a.rotateRootCommand())
	return cmd
}

func (a *app) rotateRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate-root", Short: "Encrypt the keys that seal with another root key",
		Long: `The keys that seal are encrypted with another root key, and the old one opens the
database no more. What they have sealed stays as it is: deckhand vault rotate
replaces those as well, which is what to do after a root key was seen by others.

It works on the database itself, as its owner, on a machine that has the old root
key; hubs may run meanwhile. Without --new-keyset-key a new key takes the place of
the old one in its file, which is kept beside it for backups from before. Give
the new file to all hubs. With --new-keyset-key start them with that key again.

A run that was cut short is run again, and goes on.`,
		Example: `sudo deckhand vault rotate-root
DECKHAND_DATABASE_URL=postgres://… deckhand vault rotate-root --data-dir /var/lib/deckhand
DECKHAND_DATABASE_URL=postgres://… deckhand vault rotate-root --new-keyset-key file:///etc/deckhand/root.json`, Args: takes(),
	}
	flags := cmd.Flags()
	flags.String("data-dir", defaultDataDir(), "the hub's folder, whose keyset.json is the old root key")
	flags.String("database-url", "", "the hub's database, better in DECKHAND_DATABASE_URL; that of deckhand up by default")
	flags.String("keyset-key", "", "the old root key, where it is not keyset.json of --data-dir")
	flags.String("new-keyset-key", "", "the new root key: file:///path, env://NAME or a KMS's; a new one in the old one's file by default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var cfg hub.RootRotation
		if err := config.Load(flags, "", &cfg); err != nil {
			return failed(exitUsage, fault.New(fault.Invalid, "%s", err))
		}
		if cfg.DatabaseURL == "" {
			var err error
			if cfg.DatabaseURL, err = up.DatabaseURL(cmd.Context(), cfg.DataDir); err != nil {
				return err
			}
		}
		redactor := &redact.Redactor{}
		redactor.Add(cfg.DatabaseURL.Reveal())
		rotated, err := cfg.Run(cmd.Context())
		if err != nil {
			return masked(redactor, err)
		}
		if rotated.Before {
			a.notef("the keys that seal were encrypted with the new root key already")
		}
		if rotated.Old == "" {
			a.notef("start every hub with --keyset-key %s; the old root key opens the database no more", rotated.KeysetKey)
			return nil
		}
		a.notef("%s is the new root key: give it to every hub. The old one is in %s: keep it as long as backups from before, and delete it then", rotated.KeysetKey, rotated.Old)
		return nil
	}
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
