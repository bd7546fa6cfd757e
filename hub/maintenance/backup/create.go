package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

const (
	prefix     = "deckhand-"
	partSuffix = ".part"
	fileScheme = "file://"
)

// Source is the installation that a backup is made of.
type Source struct {
	DatabaseURL config.Secret
	// RootKey is the URI of the vault's root key; see vault.OpenRoot.
	RootKey string
	// Recipients can read the root key in the backup: age public keys. They are needed if
	// the root key is a file.
	Recipients []string
	// Add, if set, adds files to the folder of the backup before it is described.
	Add func(ctx context.Context, dir string) error
	// Progress, if set, is told what is being done.
	Progress func(what string)
}

// Create makes a backup in a new folder below dir, and returns that folder.
func Create(ctx context.Context, dir string, from Source) (path string, m Manifest, err error) {
	if from.Progress == nil {
		from.Progress = func(string) {}
	}
	key, err := readRootKey(from)
	if err != nil {
		return "", m, err
	}
	conn, major, err := connect(ctx, from.DatabaseURL)
	if err != nil {
		return "", m, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	m = Manifest{
		Format: format, ID: ident.New("backup"), TakenAt: time.Now().UTC().Truncate(time.Millisecond), Version: version.Version,
		PostgreSQL: major, RootKey: key.root.String(), Recipients: from.Recipients,
	}
	if m.Schema, err = schemaOf(ctx, conn); err != nil {
		return "", m, err
	}
	if m.VaultKeys, err = vaultKeys(ctx, conn, key.root); err != nil {
		return "", m, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", m, fault.New(fault.Precondition, "cannot make the folder of backups %s: %v", dir, err).WithFix("use a folder you may write to")
	}
	path = filepath.Join(dir, prefix+m.TakenAt.Format("20060102T150405.000Z"))
	part := path + partSuffix
	if err := os.Mkdir(part, 0o700); err != nil {
		return "", m, fmt.Errorf("make the folder of the backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if err := write(ctx, conn, part, from, key, &m); err != nil {
		return "", m, err
	}
	return path, m, os.Rename(part, path)
}

// write fills the folder of a backup.
func write(ctx context.Context, conn *pgx.Conn, dir string, from Source, key rootKey, m *Manifest) (err error) {
	from.Progress("personas and audit heads")
	if err := writePersonas(ctx, conn, dir); err != nil {
		return err
	}
	// Before the dump, so that the dump has them.
	if err := writeHeads(ctx, conn, dir); err != nil {
		return err
	}
	from.Progress("database")
	if _, m.Dumped, err = postgres.ProgramOf("pg_dump", m.PostgreSQL); err != nil {
		return err
	}
	if err := run(ctx, "pg_dump", m.PostgreSQL, from.DatabaseURL, "--format=custom", "--compress=6", "--no-owner", "--no-privileges", "--no-comments",
		"--lock-wait-timeout=60000", "--file="+filepath.Join(dir, DatabaseFile)); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, DatabaseFile), 0o600); err != nil {
		return fmt.Errorf("protect the dump: %w", err)
	}
	after, err := vaultKeys(ctx, conn, key.root)
	if err != nil {
		return err
	}
	if !bytes.Equal(after, m.VaultKeys) {
		return fault.New(fault.Aborted, "the vault's keys were changed while the backup was made").WithFix("make it again when deckhand vault show shows no rotation")
	}
	if key.data != nil {
		sealed, err := encrypt(key.data, key.recipients)
		if err != nil {
			return err
		}
		if err := wholefile.Write(filepath.Join(dir, KeysetFile), sealed, 0o600); err != nil {
			return err
		}
	}
	if m.Rows, err = count(ctx, conn); err != nil {
		return err
	}
	if from.Add != nil {
		if err := from.Add(ctx, dir); err != nil {
			return err
		}
	}
	from.Progress("digests")
	if m.Files, err = describe(dir); err != nil {
		return fmt.Errorf("describe the backup: %w", err)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	return wholefile.Write(filepath.Join(dir, ManifestFile), append(text, '\n'), 0o600)
}

// rootKey is the vault's root key. data is nil for one that is not a file.
type rootKey struct {
	root       vault.Root
	data       []byte
	recipients []age.Recipient
}

func readRootKey(from Source) (key rootKey, err error) {
	file, isFile := strings.CutPrefix(from.RootKey, fileScheme)
	if isFile {
		if key.data, err = os.ReadFile(file); err != nil {
			return key, fault.New(fault.Precondition, "the root key cannot be read: %v", err).
				WithFix("run this where the hub runs, as its user, and name its folder with --data-dir or the key with --keyset-key")
		}
		if len(from.Recipients) == 0 {
			return key, fault.New(fault.Invalid, "no recipient: the root key is not stored in clear beside the data that it opens").
				WithFix("make a key pair with: deckhand backup key backup-key.txt; keep that file elsewhere, and name its public key with --recipient")
		}
	}
	for _, text := range from.Recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return key, fault.New(fault.Invalid, "recipient %q is not an age public key", text).WithFix("use the public key that deckhand backup key printed: age1…")
		}
		key.recipients = append(key.recipients, r)
	}
	key.root, err = vault.OpenRoot(from.RootKey)
	return key, err
}

// vaultKeys returns the vault's keys, encrypted with the root key, which must open them.
func vaultKeys(ctx context.Context, conn *pgx.Conn, root vault.Root) (keys []byte, err error) {
	if err := conn.QueryRow(ctx, "SELECT keys FROM keysets").Scan(&keys); err != nil {
		return nil, fmt.Errorf("read the vault's keys: %w", err)
	}
	return keys, root.Opens(keys)
}

func encrypt(data []byte, recipients []age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt the root key: %w", err)
	}
	return out.Bytes(), nil
}

var fileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// safeName returns a name that stays within its folder.
func safeName(name string) string {
	return strings.TrimLeft(cmp.Or(fileName.ReplaceAllString(name, "_"), "_"), ".")
}

// writePersonas writes the current version of every agent's persona.
func writePersonas(ctx context.Context, conn *pgx.Conn, dir string) error {
	rows, err := conn.Query(ctx, `SELECT o.name, a.name, v.markdown, v.script FROM agents a JOIN organisations o ON o.id = a.org_id
		JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version WHERE a.deleted_at IS NULL ORDER BY o.name, a.name`)
	if err != nil {
		return fmt.Errorf("read the personas: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var org, name, markdown, script string
		if err := rows.Scan(&org, &name, &markdown, &script); err != nil {
			return fmt.Errorf("read a persona: %w", err)
		}
		folder := filepath.Join(dir, PersonasDir, safeName(org))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("write the personas: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, safeName(name)+".md"), []byte(markdown), 0o600); err != nil {
			return fmt.Errorf("write a persona: %w", err)
		}
		if script != "" {
			if err := os.WriteFile(filepath.Join(folder, safeName(name)+".script.yaml"), []byte(script), 0o600); err != nil {
				return fmt.Errorf("write a persona's script: %w", err)
			}
		}
	}
	return rows.Err()
}

// Head is the newest signed head of an organisation's audit chain.
type Head struct {
	OrgID     string    `json:"org_id"`
	Number    int64     `json:"number"`
	Position  int64     `json:"position"`
	Hash      []byte    `json:"hash"`
	Time      time.Time `json:"time"`
	Signature string    `json:"signature"`
}

func heads(ctx context.Context, conn *pgx.Conn) ([]Head, error) {
	rows, err := conn.Query(ctx, `SELECT DISTINCT ON (org_id) org_id, number, position, hash, time, signature FROM audit_heads ORDER BY org_id, number DESC`)
	if err != nil {
		return nil, fmt.Errorf("read the audit heads: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Head])
	if err != nil {
		return nil, fmt.Errorf("read the audit heads: %w", err)
	}
	return out, nil
}

func writeHeads(ctx context.Context, conn *pgx.Conn, dir string) error {
	found, err := heads(ctx, conn)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the audit heads: %w", err)
	}
	return wholefile.Write(filepath.Join(dir, HeadsFile), append(text, '\n'), 0o600)
}

// counted are the tables whose rows the manifest counts.
var counted = []string{"organisations", "users", "agents", "nodes", "tasks", "steps"}

func count(ctx context.Context, conn *pgx.Conn) (map[string]int64, error) {
	out := map[string]int64{}
	for _, table := range counted {
		var n int64
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()).Scan(&n); err != nil {
			return nil, fmt.Errorf("count %s: %w", table, err)
		}
		out[table] = n
	}
	return out, nil
}
