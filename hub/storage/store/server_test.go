package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A URL may name several servers. One that is away, and one that takes connections and never
// responds, cost the time of a connection and no more.
func TestAServerThatRespondsIsFoundAmongSeveral(t *testing.T) {
	t.Parallel()
	url := postgrestest.BehindHosts(t, postgrestest.Database(t), "127.0.0.1:9", postgrestest.Silent(t))
	s, err := store.Open(t.Context(), url+"&connect_timeout=1")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Current(t.Context()))
}

// A server that takes no writes is no primary, and is never used.
func TestAServerThatTakesNoWritesIsRefused(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	require.NoError(t, err)
	_, err = store.Open(t.Context(), database)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.ErrorContains(t, err, "takes no writes")
	require.True(t, store.Gone(err), "a hub waits for it")

	// What was connected while it took writes is told so, and asks again.
	_, err = conn.Exec(t.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE t ()")
	require.True(t, store.Gone(err), "%v", err)
}

// A connection on which the server refused a write is not used again: the server became read-only,
// and another one may be the primary now.
func TestAConnectionThatTakesNoWritesIsClosed(t *testing.T) {
	t.Parallel()
	cfg, err := store.Parse(postgrestest.Database(t))
	require.NoError(t, err)
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE t ()")
	require.True(t, store.Gone(err), "%v", err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE t ()")
	require.NoError(t, err)
}

// The server ends the session of a hub that is cut off, whatever it was doing, and with it the
// row locks of its transaction. What the URL says comes first.
func TestTheServerEndsASessionThatIsCutOff(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	settings := func(url string) map[string]string {
		cfg, err := store.Parse(url)
		require.NoError(t, err)
		return cfg.ConnConfig.RuntimeParams
	}
	got := settings(database)
	require.Equal(t, "15000", got["tcp_user_timeout"])
	require.Equal(t, "5", got["tcp_keepalives_idle"])
	require.Equal(t, "5", got["tcp_keepalives_interval"])
	require.Equal(t, "2", got["tcp_keepalives_count"])
	require.Equal(t, "30000", settings(database + "&tcp_user_timeout=30000")["tcp_user_timeout"])
	s, err := store.Open(t.Context(), database)
	require.NoError(t, err)
	s.Close()
}

// A database URL is checked without being shown.
func TestAMalformedURLIsNotQuoted(t *testing.T) {
	t.Parallel()
	_, err := store.Parse("postgres://hub:hunter2@host:port/db")
	require.True(t, fault.Is(err, fault.Invalid))
	require.NotContains(t, err.Error(), "hunter2")
	cfg, err := store.Parse("postgres://hub@a:5432,b:5433/deckhand?sslmode=disable")
	require.NoError(t, err)
	require.Len(t, cfg.ConnConfig.Fallbacks, 1)
	require.Equal(t, 5*time.Second, cfg.ConnConfig.ConnectTimeout)
}
