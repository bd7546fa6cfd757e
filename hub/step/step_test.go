package step

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/store"
)

func TestTheDatabaseHoldsTheSameTableOfMoves(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	s.Close()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT from_state, to_state FROM transitions WHERE object = 'step'")
	require.NoError(t, err)
	got := map[State][]State{}
	var from, to State
	_, err = pgx.ForEachRow(rows, []any{&from, &to}, func() error {
		got[from] = append(got[from], to)
		return nil
	})
	require.NoError(t, err)
	for state, tos := range transitions {
		require.ElementsMatch(t, tos, got[state], state)
	}
}
