package backup_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
	"github.com/deckhand-sh/deckhand/hub/maintenance/restore"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// A database is adopted only while no hub is connected to it, if it takes writes, and if no restore
// has left it in part. An adoption that was not completed may be repeated.
func TestADatabaseIsAdoptedByItself(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hub, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	sql := func(statement string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	adopt := func() (backup.Adopted, error) { return backup.Adopt(t.Context(), config.Secret(url)) }
	refused := func(because string) {
		t.Helper()
		_, err := adopt()
		require.ErrorContains(t, err, because)
		require.NotEmpty(t, fault.As(err).Fix)
	}
	refused("a hub runs on this database") // which does not lead
	require.NoError(t, hub.RefuseUnfinished(t.Context()), "nothing was begun")
	hub.Close()
	require.Eventually(t, func() bool {
		n, err := store.Sessions(t.Context(), conn)
		return err == nil && n == 0
	}, waittest.Limit(10*time.Second), 10*time.Millisecond)

	require.NoError(t, store.BeginUnfinished(t.Context(), conn, store.Restoring))
	refused("the restore of a backup into this database was not completed")
	sql("DROP TABLE " + store.Unfinished)

	sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	refused("takes no writes")
	sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$")

	require.NoError(t, store.BeginUnfinished(t.Context(), conn, store.Adopting))
	done, err := adopt()
	require.NoError(t, err)
	require.Equal(t, restore.Unknown, done.Until, "it has no event: nodes are asked for everything")
	op, err := store.UnfinishedOn(t.Context(), conn)
	require.NoError(t, err)
	require.Empty(t, op)
	var kind, of string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT backup_id, extract(epoch FROM taken_at)::bigint::text FROM restores").Scan(&kind, &of))
	require.Contains(t, kind, "adopted_")
	require.Equal(t, "0", of)
}
