package role

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// RotateRootCommand returns the command "deckhand vault rotate-root".
func RotateRootCommand(e *env.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate-root", Short: "Encrypt the vault's keys with another root key",
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
DECKHAND_DATABASE_URL=postgres://… deckhand vault rotate-root --new-keyset-key file:///etc/deckhand/root.json`, Args: env.Args(),
	}
	flags := cmd.Flags()
	flags.String("data-dir", defaultDataDir(), "the hub's folder, whose keyset.json is the old root key")
	flags.String("database-url", "", "the hub's database, better in DECKHAND_DATABASE_URL; that of deckhand up by default")
	flags.String("keyset-key", "", "the old root key, where it is not keyset.json of --data-dir")
	flags.String("new-keyset-key", "", "the new root key: file:///path, env://NAME or a KMS's; a new one in the old one's file by default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var cfg hub.RootRotation
		if err := config.Load(flags, "", &cfg); err != nil {
			return env.Failed(env.ExitUsage, fault.New(fault.Invalid, "%s", err))
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
			e.Notef("the keys that seal were encrypted with the new root key already")
		}
		if rotated.Old == "" {
			e.Notef("start every hub with --keyset-key %s; the old root key opens the database no more", rotated.KeysetKey)
			return nil
		}
		e.Notef("%s is the new root key: give it to every hub. The old one is in %s: keep it as long as backups from before, and delete it then", rotated.KeysetKey, rotated.Old)
		return nil
	}
	return cmd
}
