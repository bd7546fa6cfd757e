package backup

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
)

// createOptions are the flags of backup create that the environment has not.
type createOptions struct {
	recipients     []string
	recipientsFile string
	nodeDir        string
}

func createCommand(e *env.Env) *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use: "create DIR", Short: "Make a backup in a new folder below DIR",
		Long: `Makes a backup while hubs and tasks go on. The database is dumped with pg_dump, whose
version must be that of the server or later. If the root key is a file, it is encrypted
for every --recipient; one of a KMS or of a variable stays where it is.

--node-dir adds a node's identity, ledger, logs and snapshots, encrypted for the same
recipients. That node must be stopped. Workspaces are not part of it.`,
		Example: `sudo deckhand backup create /srv/backups --recipient age1...
DECKHAND_DATABASE_URL=postgres://... deckhand backup create /srv/backups --recipients-file keys.txt`,
		Args: env.Args("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s settings
			if err := s.load(cmd); err != nil {
				return err
			}
			url, err := s.database(cmd)
			if err != nil {
				return err
			}
			from := backup.Source{DatabaseURL: url, RootKey: s.KeysetKey, Progress: func(what string) { e.Notef("%s…", what) }}
			if from.RootKey == "" {
				dir, err := filepath.Abs(s.DataDir)
				if err != nil {
					return err
				}
				from.RootKey = "file://" + filepath.Join(dir, backup.KeysetName)
			}
			if from.Recipients, err = recipients(o.recipients, o.recipientsFile); err != nil {
				return err
			}
			if o.nodeDir != "" {
				from.Add = func(ctx context.Context, dir string) error { return addNode(ctx, o.nodeDir, dir, from.Recipients) }
			}
			path, m, err := backup.Create(cmd.Context(), args[0], from)
			if err != nil {
				return err
			}
			shown, err := item(path, m, "")
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun, shown)
		},
	}
	dataDirFlag(cmd, "the hub's data folder, which has keyset.json")
	cmd.Flags().String("database-url", "", "the hub's database, better in DECKHAND_DATABASE_URL; that of deckhand up by default")
	cmd.Flags().String("keyset-key", "", "the root key, where it is not keyset.json of --data-dir")
	cmd.Flags().StringArrayVar(&o.recipients, "recipient", nil, "age public key that can read the root key in the backup; repeat it for more")
	cmd.Flags().StringVar(&o.recipientsFile, "recipients-file", "", "file of age public keys, one a line")
	cmd.Flags().StringVar(&o.nodeDir, "node-dir", "", "data folder of a stopped node to add")
	return cmd
}
