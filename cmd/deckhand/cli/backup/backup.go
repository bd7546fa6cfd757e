// Package backup is the command "deckhand backup": it makes, lists, verifies and restores
// backups of an installation. It works on the hub's database and on data folders
// themselves, not through the API.
package backup

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Command returns the command "deckhand backup".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("backup", "Make and restore backups of the database, keys and personas", `
A backup is a folder with a dump of the database, the vault's root key encrypted with
age, the personas and the heads of the audit chains, and a manifest with digests. It
is made while everything runs. Run these commands where the hub runs, as its user.
`, `
deckhand backup key backup-key.txt
sudo deckhand backup create /srv/backups --recipient age1...
deckhand backup list /srv/backups
deckhand backup verify /srv/backups/deckhand-20261127T020000.000Z --identity backup-key.txt
sudo deckhand backup restore /srv/backups/deckhand-20261127T020000.000Z --identity backup-key.txt
`)
	cmd.AddCommand(keyCommand(e), createCommand(e), listCommand(e), verifyCommand(e), restoreCommand(e), adoptCommand(e), restoreNodeCommand(e))
	return cmd
}

func keyCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Make a key pair for the root key in backups",
		Long: `Writes a new age key pair to FILE, which must not exist, with mode 0600, and prints its
public key. Backups need the public key only. Keep FILE away from the backups, and not
only on the machine that is backed up: without it a backup cannot be restored.
FILE works with the program age as well.`,
		Example: "deckhand backup key backup-key.txt", Args: env.Args("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			identity, err := age.GenerateX25519Identity()
			if err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, os.ErrExist) {
				return fault.New(fault.Exists, "%s exists already", args[0]).WithFix("name another file: a key is never overwritten")
			}
			if err != nil {
				return env.Unreadable(args[0], err)
			}
			_, err = fmt.Fprintf(f, "# created by deckhand backup key\n# public key: %s\n%s\n", identity.Recipient(), identity)
			if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
				return fmt.Errorf("write %s: %w", args[0], err)
			}
			_, err = fmt.Fprintln(e.Out, identity.Recipient())
			e.Notef("%s is the private key: keep a copy where neither this machine's failure nor a thief of the backups reaches it", args[0])
			return err
		},
	}
}

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list DIR", Short: "List the backups in a folder, newest first", Example: "deckhand backup list /srv/backups", Args: env.Args("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			entries, err := backup.List(args[0])
			if err != nil {
				return err
			}
			if len(entries) == 0 {
				e.Notef("no backups in %s; make one: deckhand backup create %s", args[0], args[0])
			}
			items := make([]*structpb.Struct, len(entries))
			for i, entry := range entries {
				if items[i], err = item(entry.Dir, entry.Manifest, entry.Problem); err != nil {
					return err
				}
			}
			return output.List(e.Printer(), noun, items)
		},
	}
}

// item returns a backup as it is shown.
func item(dir string, m backup.Manifest, problem string) (*structpb.Struct, error) {
	rows := map[string]any{}
	for table, n := range m.Rows {
		rows[table] = float64(n)
	}
	taken := ""
	if !m.TakenAt.IsZero() {
		taken = m.TakenAt.UTC().Format("2006-01-02T15:04:05Z")
	}
	return structpb.NewStruct(map[string]any{
		"path": dir, "id": m.ID, "taken_at": taken, "version": m.Version, "schema": float64(m.Schema), "bytes": float64(m.Size()),
		"root_key": m.RootKey, "node_data": m.Has(backup.NodeFile), "rows": rows, "problem": problem,
	})
}

func text(name string) func(*structpb.Struct) string {
	return func(s *structpb.Struct) string { return s.GetFields()[name].GetStringValue() }
}

var noun = output.Noun[*structpb.Struct]{
	Name: text("path"),
	Columns: []output.Column[*structpb.Struct]{
		{Header: "path", Value: text("path")},
		{Header: "taken at", Value: text("taken_at")},
		{Header: "version", Value: text("version")},
		{Header: "size", Value: func(s *structpb.Struct) string {
			return output.Size(int64(s.GetFields()["bytes"].GetNumberValue()))
		}},
		{Header: "problem", Value: text("problem")},
	},
}

// dataDirFlag registers --data-dir.
func dataDirFlag(cmd *cobra.Command, usage string) {
	dir, err := datadir.Default()
	if err != nil {
		dir = ""
	}
	cmd.Flags().String("data-dir", dir, usage)
}

// settings are the flags by which an installation is found, which the environment has too.
type settings struct {
	DataDir     string        `koanf:"data-dir"`
	DatabaseURL config.Secret `koanf:"database-url"`
	KeysetKey   string        `koanf:"keyset-key"`
}

func (s *settings) load(cmd *cobra.Command) error {
	if err := config.Load(cmd.Flags(), "", s); err != nil {
		return env.Failed(env.ExitUsage, fault.New(fault.Invalid, "%s", err))
	}
	return nil
}

// database returns the database of the installation.
func (s *settings) database(cmd *cobra.Command) (config.Secret, error) {
	if s.DatabaseURL != "" {
		return s.DatabaseURL, nil
	}
	return up.DatabaseURL(cmd.Context(), s.DataDir)
}

// identities reads the private keys of a file.
func identities(file string) ([]age.Identity, error) {
	if file == "" {
		return nil, nil
	}
	data, err := env.ReadBounded(file, maxKeyFile)
	if err != nil {
		return nil, err
	}
	found, err := age.ParseIdentities(strings.NewReader(string(data)))
	if err != nil {
		// The cause may quote the line, which may be a key.
		return nil, fault.New(fault.Invalid, "%s is not a file of age keys", file).WithFix("give the file that deckhand backup key made")
	}
	return found, nil
}

// maxKeyFile bounds a file of keys, in bytes.
const maxKeyFile = 1 << 20

// recipients returns the public keys that flags and files name.
func recipients(named []string, file string) ([]string, error) {
	out := named
	if file == "" {
		return out, nil
	}
	data, err := env.ReadBounded(file, maxKeyFile)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out, nil
}
