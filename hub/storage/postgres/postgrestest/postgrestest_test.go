package postgrestest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/internal/ident"
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

func TestATemplateIsFilledOnceAndCopied(t *testing.T) {
	filled := 0
	fill := func(ctx context.Context, url string) error {
		filled++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "CREATE TABLE things (id text PRIMARY KEY)")
		return err
	}
	template := strings.ReplaceAll(ident.New("template"), "-", "_")
	first, second := postgrestest.Copy(t, template, fill), postgrestest.Copy(t, template, fill)
	require.Equal(t, 1, filled)
	require.NotEqual(t, first, second)
	for _, url := range []string{first, second} {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "INSERT INTO things VALUES ('a')")
		require.NoError(t, err, "each copy has the template's table, and no row of the other")
		require.NoError(t, conn.Close(t.Context()))
	}
}
