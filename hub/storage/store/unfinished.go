package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Unfinished is the table that a database has while a backup is restored into it, or while it is
// adopted: the operation creates it before anything else, and drops it when a hub may start. Its
// one row is the Operation. The migrations do not create it.
const Unfinished = "deckhand_restore_unfinished"

// Operation is what prepares a database for hubs.
type Operation string

// The operations. A database is empty before Restoring, and is the only copy of itself in Adopting.
const (
	Restoring Operation = "restore"
	Adopting  Operation = "adopt"
)

// BeginUnfinished has no hub start on a database from now on. It does not replace the record of an
// operation that has begun already.
func BeginUnfinished(ctx context.Context, conn *pgx.Conn, op Operation) error {
	// A statement that creates something takes no parameters; op is one of the constants.
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+Unfinished+" AS SELECT '"+string(op)+"'::text AS operation"); err != nil {
		return fmt.Errorf("record that the %s of the database has begun: %w", op, err)
	}
	return nil
}

// UnfinishedOn returns the operation that was not completed on a database, "" for none.
func UnfinishedOn(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (op Operation, err error) {
	err = conn.QueryRow(ctx, "SELECT operation FROM "+Unfinished).Scan(&op)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == undefinedTable {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("see whether a restore was completed: %w", err)
	}
	return op, nil
}

// RefuseUnfinished refuses a database into which a backup was restored, or that was adopted, only
// in part: a hub on it would take its tasks for running and repeat what they did.
func (s *Store) RefuseUnfinished(ctx context.Context) error {
	op, err := UnfinishedOn(ctx, s.pool)
	if err != nil {
		return err
	}
	return op.Refuse()
}

// Refuse returns the error of an operation that was not completed, nil for none.
func (op Operation) Refuse() error {
	switch op {
	case "":
		return nil
	case Adopting:
		return fault.New(fault.Precondition, "the adoption of this database was not completed").
			WithFix("run deckhand backup adopt again")
	default:
		return fault.New(fault.Precondition, "the restore of a backup into this database was not completed").
			WithFix("empty the database and run deckhand backup restore again")
	}
}
