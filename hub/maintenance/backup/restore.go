package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/maintenance/restore"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

// KeysetName is the file of the root key in a data folder.
const KeysetName = "keyset.json"

// Target is what a backup is restored into.
type Target struct {
	// DataDir gets the root key, if the backup has it.
	DataDir string
	// Database returns the URL of an empty database. It is called once, when the backup
	// has been verified.
	Database func(ctx context.Context) (config.Secret, error)
	Key      Key
	// Progress, if set, is told what is being done.
	Progress func(what string)
}

// Restored is what Restore did.
type Restored struct {
	Manifest
	restore.Begun
}

// Restore verifies a backup and restores it. No hub may run on the target meanwhile.
func Restore(ctx context.Context, dir string, to Target) (out Restored, err error) {
	if to.Progress == nil {
		to.Progress = func(string) {}
	}
	// What is checked in a moment comes before what takes long.
	if out.Manifest, err = Read(dir); err != nil {
		return out, err
	}
	if err := restorable(out.Manifest); err != nil {
		return out, err
	}
	if err := restore.CheckClock(out.TakenAt); err != nil {
		return out, err
	}
	if err := emptyKeyset(to.DataDir); err != nil {
		return out, err
	}
	keyset, err := openRoot(dir, out.Manifest, to.Key)
	if err != nil {
		return out, err
	}
	to.Progress("verify")
	if _, err := Verify(ctx, dir, nil); err != nil {
		return out, err
	}
	url, err := to.Database(ctx)
	if err != nil {
		return out, err
	}
	to.Progress("database")
	if err := load(ctx, dir, url, out.Manifest); err != nil {
		return out, err
	}
	if keyset != nil {
		if err := os.MkdirAll(to.DataDir, 0o711); err != nil { //nolint:gosec // jails pass through it, as deckhand up makes it
			return out, fmt.Errorf("make the data folder: %w", err)
		}
		path := filepath.Join(to.DataDir, KeysetName)
		defer func() {
			if err != nil { // so that it can be repeated
				err = errors.Join(err, removed(path))
			}
		}()
		if err := wholefile.Write(path, keyset, 0o600); err != nil {
			return out, err
		}
	}
	to.Progress("schema and tasks")
	if out.Begun, err = begin(ctx, url, restore.Backup{Kind: restore.FromBackup, ID: out.ID, TakenAt: out.TakenAt}); err != nil {
		return out, err
	}
	return out, finish(ctx, url)
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the root key again: %w", err)
	}
	return nil
}

// finish lets hubs start on the database: see store.Unfinished.
func finish(ctx context.Context, url config.Secret) error {
	conn, _, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "DROP TABLE "+store.Unfinished); err != nil {
		return fmt.Errorf("record that the database is complete: %w", err)
	}
	return nil
}

func emptyKeyset(dataDir string) error {
	path := filepath.Join(dataDir, KeysetName)
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the data folder: %w", err)
	}
	return notEmpty("the data folder " + dataDir + " has a root key (" + KeysetName + ")")
}

func notEmpty(what string) error {
	return fault.New(fault.Exists, "the target is not empty: %s", what).
		WithFix("restore into an empty data folder and database; nothing is overwritten")
}

// load restores the dump into an empty database.
func load(ctx context.Context, dir string, url config.Secret, m Manifest) error {
	conn, major, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if major < m.PostgreSQL {
		return fault.New(fault.Precondition, "the backup was made of PostgreSQL %d, and the target is PostgreSQL %d", m.PostgreSQL, major).
			WithFix("apt-get install postgresql-%d, or restore into a server of that version or later", m.PostgreSQL)
	}
	var tables int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%' AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
		AND c.relname <> $1`, store.Unfinished).Scan(&tables); err != nil {
		return fmt.Errorf("look whether the database is empty: %w", err)
	}
	if tables > 0 {
		return notEmpty(fmt.Sprintf("the database has %d tables, views and sequences", tables))
	}
	reader := max(major, m.PostgreSQL, m.Dumped)
	if err := understands(major, reader); err != nil {
		return err
	}
	// No hub starts on the database from here until finish.
	if err := store.BeginUnfinished(ctx, conn, store.Restoring); err != nil {
		return err
	}
	if err := run(ctx, "pg_restore", reader, url, "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", filepath.Join(dir, DatabaseFile)); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
		return fmt.Errorf("collect the database's statistics: %w", err)
	}
	return compareHeads(ctx, conn, dir)
}

// understands refuses a server that does not know what pg_restore sets for every session: from
// PostgreSQL 17 on that is transaction_timeout.
func understands(server, reader int) error {
	const timeouts = 17
	if _, has, err := postgres.ProgramOf("pg_restore", reader); err != nil {
		return err
	} else if server < timeouts && has >= timeouts {
		return fault.New(fault.Precondition, "pg_restore of PostgreSQL %d cannot restore into a server of PostgreSQL %d", has, server).
			WithFix("restore into a server of PostgreSQL %d or later", max(reader, timeouts))
	}
	return nil
}

// compareHeads checks that the restored audit chains go at least as far as those of the backup.
func compareHeads(ctx context.Context, conn *pgx.Conn, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, HeadsFile))
	if err != nil {
		return fmt.Errorf("read the audit heads: %w", err)
	}
	var want []Head
	if err := json.Unmarshal(data, &want); err != nil {
		return damaged(dir, HeadsFile+" cannot be read")
	}
	for _, head := range want {
		var same bool
		err := conn.QueryRow(ctx, "SELECT hash = $3 AND signature = $4 FROM audit_heads WHERE org_id = $1 AND number = $2",
			head.OrgID, head.Number, head.Hash, head.Signature).Scan(&same)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("compare the audit heads: %w", err)
		}
		if !same {
			return damaged(dir, fmt.Sprintf("the audit chain of organisation %s is not the one that it had (head %d)", head.OrgID, head.Number))
		}
	}
	return nil
}

// begin brings the schema up to date and prepares the work to go on.
func begin(ctx context.Context, url config.Secret, from restore.Backup) (restore.Begun, error) {
	st, err := store.Open(ctx, url.Reveal())
	if err != nil {
		return restore.Begun{}, err
	}
	defer st.Close()
	recorder := event.NewRecorder(event.RecorderConfig{
		Store: st, Redact: &redact.Redactor{}, Notify: func(string, string) {}, Changes: &change.Feed{},
	})
	return restore.Begin(ctx, recorder, st, from)
}
