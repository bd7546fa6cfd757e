package store_test

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// withHosts returns a database URL with others before its own server.
func withHosts(t *testing.T, database string, before ...string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	query := u.Query()
	hosts, ports := "", ""
	for _, address := range before {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		hosts, ports = hosts+host+",", ports+port+","
	}
	query.Set("host", hosts+query.Get("host"))
	query.Set("port", ports+query.Get("port"))
	query.Set("connect_timeout", "1")
	u.RawQuery = query.Encode()
	return u.String()
}

// A URL may name several servers. One that is away, and one that takes connections and never
// responds, cost the time of a connection and no more.
func TestAServerThatRespondsIsFoundAmongSeveral(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	s, err := store.Open(t.Context(), withHosts(t, postgrestest.Database(t), "127.0.0.1:9", silent.Addr().String()))
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
