package postgrestest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachTestGetsAnEmptyDatabaseOfItsOwn(t *testing.T) {
	first, second := postgrestest.Database(t), postgrestest.Database(t)
	require.NotEqual(t, first, second)
	for _, url := range []string{first, second} {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "CREATE TABLE things (id text PRIMARY KEY)")
		require.NoError(t, err, "a table of the same name fits into each database")
		require.NoError(t, conn.Close(t.Context()))
	}
}
