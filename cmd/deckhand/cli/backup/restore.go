package backup

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
	"github.com/deckhand-sh/deckhand/hub/maintenance/restore"
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
with it, and pauses every task that had not ended, with a list of what it did since:
look at each, and go on with deckhand task resume. Nothing is executed again by itself.
What was revoked or disabled after the backup is as it was before. See
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
			// All of it is checked before anything is restored.
			if nodeDir != "" {
				m, err := backup.Read(args[0])
				if err != nil {
					return err
				}
				if !m.Has(backup.NodeFile) {
					return fault.New(fault.Invalid, "the backup has no data of a node").WithFix("leave out --node-dir")
				}
				if err := emptyFolder(nodeDir); err != nil {
					return err
				}
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
				if err := restoreNode(args[0], nodeDir, ids); err != nil {
					return err
				}
			}
			noteBegun(e, done.Begun, done.TakenAt)
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

// noteBegun says what waits, was ended and was dropped in a database whose state is of a time.
func noteBegun(e *env.Env, done restore.Begun, of time.Time) {
	since := of.Format("2006-01-02 15:04:05 MST")
	if of.Equal(restore.Unknown) {
		since = "its last change"
	}
	if done.Tasks > 0 {
		e.Notef("%d tasks had not ended. They wait until the nodes (%d) have said what ran since %s and a person has resumed each; deckhand task list shows why each waits", done.Tasks, done.Nodes, since)
	}
	e.Notef("All %d sessions of people were ended. What was revoked, disabled or changed since %s is as it was before: revoke tokens, users, nodes and credentials again, and set policies, roles and kill switches anew (deckhand audit list of the lost hub, where it was exported, shows which)", done.Sessions, since)
	e.Notef("Nodes that were enrolled since are refused, and what ran on them is on no list: look there before you resume tasks")
	if n := done.Deliveries + done.Notifications; n > 0 {
		e.Notef("%d deliveries and %d notifications that waited then were dropped, since they may have been handled since: deckhand trigger deliveries, deckhand destination notifications", done.Deliveries, done.Notifications)
	}
}

func restoreNodeCommand(e *env.Env) *cobra.Command {
	var identity string
	cmd := &cobra.Command{
		Use: "restore-node BACKUP DIR", Short: "Restore the data of a node in a backup into an empty folder",
		Long: `Unpacks the data of the node that is part of a backup (backup create --node-dir) into DIR,
which must be empty, on the machine of the node. Use it only if the node's own data
folder is lost: what the node did after the backup is not in its ledger then.`,
		Example: "sudo deckhand backup restore-node /srv/backups/deckhand-20261127T020000.000Z /var/lib/deckhand-node --identity backup-key.txt",
		Args:    env.Args("BACKUP", "DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			ids, err := identities(identity)
			if err != nil {
				return err
			}
			m, err := backup.Read(args[0])
			if err != nil {
				return err
			}
			if !m.Has(backup.NodeFile) {
				return fault.New(fault.Invalid, "the backup has no data of a node").WithFix("use a backup that was made with --node-dir")
			}
			if err := restoreNode(args[0], args[1], ids); err != nil {
				return err
			}
			e.Notef("restored the node's data into %s; start deckhand-node with --data-dir %s", args[1], args[1])
			return nil
		},
	}
	cmd.Flags().StringVar(&identity, "identity", "", "file of the private key, as deckhand backup key made it")
	return cmd
}
