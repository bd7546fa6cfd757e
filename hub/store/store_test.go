package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// O2: every table that holds somebody's data says whose.
func TestEveryTableCarriesItsOrganisation(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	again, err := store.Open(t.Context(), url)
	require.NoError(t, err, "opening twice is harmless")
	again.Close()

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT t.table_name FROM information_schema.tables t
		WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND NOT EXISTS (
			SELECT 1 FROM information_schema.columns c
			WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.column_name = 'org_id')
		ORDER BY 1`)
	require.NoError(t, err)
	without, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"cluster_secrets",  // of the installation itself, sealed
		"goose_db_version", // the schema's own version
		"organisations",    // is the organisation
		"transitions",      // the moves between states
	}, without)
}

func TestReferencesNameOneThing(t *testing.T) {
	t.Parallel()
	type row = db.FindTasksRow
	id, err := store.One("task", "task_ab", []row{{ID: "task_ab", Exact: true}, {ID: "task_abc"}}, nil)
	require.NoError(t, err, "a whole id is not ambiguous")
	require.Equal(t, "task_ab", id)
	_, err = store.One("task", "task_a", []row{{ID: "task_ab"}, {ID: "task_ac"}}, nil)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = store.One("task", "x", []row{}, nil)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)

	require.Equal(t, `task\_3q%`, store.Prefix("task", "task_3q"))
	require.Equal(t, `task\_3q%`, store.Prefix("task", "3q"))
	require.Equal(t, `task\_\%\_%`, store.Prefix("task", "%_"), "a reference is no pattern")
	require.Empty(t, store.Prefix("task", "task_"), "a kind alone names nothing")
	require.Empty(t, store.Prefix("task", ""))
}
