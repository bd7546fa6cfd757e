package backup

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func verifyCommand(e *env.Env) *cobra.Command {
	var identity, keysetKey string
	cmd := &cobra.Command{
		Use: "verify BACKUP", Short: "Read all of a backup and check it",
		Long: `Reads every file of a backup against its digest, and unpacks all of the dump. With
--identity it also checks that the key reads the root key, and that this opens the
vault. The exit code is 1 if anything is wrong.`,
		Example: `deckhand backup verify /srv/backups/deckhand-20261127T020000.000Z
deckhand backup verify /srv/backups/deckhand-20261127T020000.000Z --identity backup-key.txt`,
		Args: env.Args("BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var key *backup.Key
			if identity != "" || keysetKey != "" {
				ids, err := identities(identity)
				if err != nil {
					return err
				}
				key = &backup.Key{Identities: ids, RootKey: keysetKey}
			}
			m, err := backup.Verify(cmd.Context(), args[0], key)
			if err != nil {
				return err
			}
			if key == nil {
				e.Notef("the root key was not read: give --identity to check that it opens the vault")
			}
			shown, err := item(args[0], m, "")
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun, shown)
		},
	}
	cmd.Flags().StringVar(&identity, "identity", "", "file of the private key, as deckhand backup key made it")
	cmd.Flags().StringVar(&keysetKey, "keyset-key", "", "the root key, if it is not part of the backup")
	return cmd
}

func restoreCommand(e *env.Env) *cobra.Command {
	var identity, nodeDir string
	cmd := &cobra.Command{
		Use: "restore BACKUP", Short: "Restore a backup into an empty data folder and database",
		Long: `Restores a backup into the private database of deckhand up in --data-dir, or into the
empty database that --database-url names. The target must be empty, no hub may run on
it, and the backup may not be of a newer release. Start deckhand up or the hub then.

Nodes may know more than the backup. When they connect, the hub compares their ledgers
with it: tasks of which they know nothing newer go on, and those that did something
since are paused and list it. Nothing is executed again by itself. See
https://github.com/deckhand-sh/deckhand/blob/main/docs/backup.md.`,
		Example: `sudo deckhand backup restore /srv/backups/deckhand-20261127T020000.000Z --identity backup-key.txt
DECKHAND_DATABASE_URL=postgres://... deckhand backup restore /srv/backups/deckhand-20261127T020000.000Z --identity backup-key.txt`,
		Args: env.Args("BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var s settings
			if err := s.load(cmd); err != nil {
				return err
			}
			if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
				return err
			}
			ids, err := identities(identity)
			if err != nil {
				return err
			}
			var created *up.NewDatabase
			done, err := backup.Restore(cmd.Context(), args[0], backup.Target{
				DataDir: s.DataDir, Key: backup.Key{Identities: ids, RootKey: s.KeysetKey}, Progress: func(what string) { e.Notef("%s…", what) },
				Database: func(ctx context.Context) (config.Secret, error) {
					if s.DatabaseURL != "" {
						return s.DatabaseURL, nil
					}
					if created, err = up.CreateDatabase(ctx, s.DataDir); err != nil {
						return "", err
					}
					return created.URL, nil
				},
			})
			if created != nil {
				end := created.Close
				if err != nil {
					end = created.Discard
				}
				err = errors.Join(err, end())
			}
			if err != nil {
				return err
			}
			if nodeDir != "" {
				if !done.Has(backup.NodeFile) {
					return fault.New(fault.Invalid, "the backup has no data of a node").WithFix("leave out --node-dir: the rest is restored")
				}
				if err := restoreNode(args[0], nodeDir, ids); err != nil {
					return err
				}
			}
			if done.Tasks > 0 {
				e.Notef("%d tasks had not ended. They wait until the nodes (%d) have said what ran since %s; deckhand task list shows why each waits", done.Tasks, done.Nodes, done.TakenAt.Format("2006-01-02 15:04:05 MST"))
			}
			if n := done.Deliveries + done.Notifications; n > 0 {
				e.Notef("%d deliveries and %d notifications that waited in the backup were dropped, since they may have been handled since: deckhand trigger deliveries, deckhand destination notifications", done.Deliveries, done.Notifications)
			}
			shown, err := item(args[0], done.Manifest, "")
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun, shown)
		},
	}
	dataDirFlag(cmd, "the data folder that gets the root key and, without --database-url, the database")
	cmd.Flags().String("database-url", "", "an empty database, better in DECKHAND_DATABASE_URL; a private one in --data-dir by default")
	cmd.Flags().String("keyset-key", "", "the root key, if it is not part of the backup")
	cmd.Flags().StringVar(&identity, "identity", "", "file of the private key, as deckhand backup key made it")
	cmd.Flags().StringVar(&nodeDir, "node-dir", "", "empty folder that gets the data of the node in the backup")
	return cmd
}
