package up

import (
	"context"
	"os"
	"path/filepath"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// DatabaseURL returns the database that deckhand up keeps in a data folder; it
// runs while up does.
func DatabaseURL(ctx context.Context, dataDir string) (config.Secret, error) {
	dir := filepath.Join(dataDir, "postgres")
	if _, err := os.Stat(dir); err != nil {
		return "", fault.New(fault.Precondition, "database-url is empty, and %s has no database of deckhand up", dataDir).
			WithFix("name the hub's database in DECKHAND_DATABASE_URL, or the data folder of deckhand up with --data-dir")
	}
	cluster, err := postgres.Config{DataDir: dir}.Complete(ctx)
	if err != nil {
		return "", err
	}
	return config.Secret(cluster.URL(database)), nil
}
