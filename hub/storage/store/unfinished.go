package store

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Unfinished is the table that a database has while a backup is restored into it: a restore makes
// it before anything else, and drops it in the transaction after which a hub may start. It is
// none of the schema's.
const Unfinished = "deckhand_restore_unfinished"

// RefuseUnfinished refuses a database into which a backup was restored, or that was adopted, only
// in part: a hub on it would take its tasks for running and repeat what they did.
func (s *Store) RefuseUnfinished(ctx context.Context) error {
	var there bool
	if err := s.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", Unfinished).Scan(&there); err != nil {
		return fmt.Errorf("see whether a restore was completed: %w", err)
	}
	if there {
		return fault.New(fault.Precondition, "the restore of a backup into this database, or its adoption, was not completed").
			WithFix("empty the database and run deckhand backup restore again, or run deckhand backup adopt again")
	}
	return nil
}
