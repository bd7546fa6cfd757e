package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datalock"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// NewDatabase is an empty database that was created in a data folder for a restore. While it
// is open, no deckhand up can start there.
type NewDatabase struct {
	URL config.Secret

	cluster *postgres.Cluster
	dir     string
	unlock  func() error
}

// CreateDatabase creates the private cluster of a data folder, which must have none, and starts
// it.
func CreateDatabase(ctx context.Context, dataDir string) (_ *NewDatabase, err error) {
	if err := os.MkdirAll(dataDir, 0o711); err != nil { //nolint:gosec // jails pass through it
		return nil, fault.New(fault.Precondition, "cannot make data-dir %s: %v", dataDir, err).WithFix("use a folder you may write to")
	}
	d := &NewDatabase{dir: filepath.Join(dataDir, "postgres")}
	switch _, err := os.Stat(d.dir); {
	case err == nil:
		return nil, fault.New(fault.Exists, "the target is not empty: %s has a database", dataDir).
			WithFix("restore into an empty data folder; nothing is overwritten")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("look at the data folder: %w", err)
	}
	if d.unlock, err = datalock.Lock(filepath.Join(dataDir, lockFile), "deckhand up"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Discard())
		}
	}()
	if d.cluster, err = (postgres.Config{DataDir: d.dir}).Complete(ctx); err != nil {
		return nil, err
	}
	if err := d.cluster.Start(ctx); err != nil {
		return nil, err
	}
	if err := d.cluster.EnsureDatabase(ctx, database); err != nil {
		return nil, err
	}
	// A newer release may have written the folder before: what is restored is of this one.
	if err := writeFormat(dataDir); err != nil {
		return nil, err
	}
	d.URL = config.Secret(d.cluster.URL(database))
	return d, nil
}

// Close stops the cluster; the database stays.
func (d *NewDatabase) Close() error {
	if d.cluster != nil {
		d.cluster.Stop()
	}
	return d.unlock()
}

// Discard stops the cluster and deletes it, so that the folder is empty again.
func (d *NewDatabase) Discard() error {
	return errors.Join(d.Close(), os.RemoveAll(d.dir))
}
