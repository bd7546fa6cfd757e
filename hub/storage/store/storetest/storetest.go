// Package storetest gives tests databases with the hub's schema.
//
// The migrations run once for each server and schema, into a template database;
// every test gets a copy, which costs a fortieth of running them again. Tests
// of the migrations themselves take an empty database from postgrestest.
package storetest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
)

// Database returns the URL of a fresh database with the current schema and no
// rows, dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	return postgrestest.Copy(t, "deckhand_"+store.SchemaDigest()[:16], func(ctx context.Context, url string) error {
		s, err := store.Open(ctx, url)
		if err != nil {
			return err
		}
		s.Close()
		return nil
	})
}

// SetSchema has a database say that it has the schema of a version.
func SetSchema(t testing.TB, url string, version int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)", version)
	require.NoError(t, err)
}
