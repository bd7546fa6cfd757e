package event_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// A transaction that needs a slow result releases its locks, obtains it, and starts again
// with the result: nothing of its first attempt is left.
func TestATransactionBeginsAgainAfterWhatIsDoneOutsideOfIt(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_a")
	tries, committed := 0, 0
	err := h.recorder.Tx(t.Context(), func(tx *event.Tx) error {
		tries++
		tx.AfterCommit(func() { committed++ })
		if _, err := tx.LockTask(t.Context(), db.LockTaskParams{OrgID: org, ID: "task_a"}); err != nil {
			return err
		}
		if err := tx.Append(org, "task_a", event.Hub, event.Draft{Type: "checkpoint_created", Payload: map[string]any{"try": tries}}); err != nil {
			return err
		}
		found := event.Keep(tx, "found", func() *string { return new(string) })
		if *found != "" {
			return nil
		}
		return fmt.Errorf("decide: %w", &event.Outside{Do: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, h.url)
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			return conn.QueryRow(ctx, "SELECT id FROM tasks WHERE id = 'task_a' FOR UPDATE NOWAIT").Scan(found)
		}})
	})
	require.NoError(t, err)
	require.Equal(t, 2, tries)
	require.Equal(t, 1, committed)
	conn, err := pgx.Connect(t.Context(), h.url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var stored int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM events WHERE task_id = 'task_a'").Scan(&stored))
	require.Equal(t, 1, stored)

	broken := errors.New("the node is away")
	err = h.recorder.Tx(t.Context(), func(*event.Tx) error {
		return &event.Outside{Do: func(context.Context) error { return broken }}
	})
	require.ErrorIs(t, err, broken, "what cannot be done ends it")
}
