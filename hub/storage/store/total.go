package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// MaxCounted is how many rows of a list are counted: to count on costs more with each row, and
// nobody reads so many.
const MaxCounted = 10_000

// Total counts the rows that a list has on all its pages.
type Total struct {
	// count is set by the list.
	count func() (rows int64, err error)
}

type totalKey struct{}

// WithTotal returns a context, and a total that counts the list which is read with it. The list
// is read from its beginning, and calls [Store.CountAll].
func WithTotal(ctx context.Context) (context.Context, *Total) {
	total := &Total{}
	return context.WithValue(ctx, totalKey{}, total), total
}

// CountAll says how the rows of a list are counted if the context asks for it. list makes the
// list's own query for at most so many rows, so that both have the same filters; the rows
// themselves are not read.
func (s *Store) CountAll(ctx context.Context, list func(q *db.Queries, maxRows int32) error) {
	total, ok := ctx.Value(totalKey{}).(*Total)
	if !ok {
		return
	}
	total.count = func() (int64, error) {
		c := &counter{on: s.pool}
		err := list(db.New(c), MaxCounted+1)
		return c.rows, err
	}
}

// Countable reports whether the list said how it is counted.
func (t *Total) Countable() bool { return t.count != nil }

// Count counts the rows. atLeast reports that there are more than rows, which is MaxCounted then.
func (t *Total) Count() (rows int32, atLeast bool, err error) {
	n, err := t.count()
	if err != nil {
		return 0, false, fmt.Errorf("count a list: %w", err)
	}
	return int32(min(n, MaxCounted)), n > MaxCounted, nil
}

// counter counts the rows of a query instead of reading them.
type counter struct {
	on   db.DBTX
	rows int64
}

// Query implements db.DBTX. PostgreSQL leaves out the columns that nobody reads.
func (c *counter) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := c.on.QueryRow(ctx, "SELECT count(*) FROM (\n"+sql+"\n) AS listed", args...).Scan(&c.rows); err != nil {
		return nil, err
	}
	return noRows{}, nil
}

var errOnlyLists = errors.New("only lists are counted")

// Exec implements db.DBTX.
func (*counter) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errOnlyLists
}

// QueryRow implements db.DBTX.
func (*counter) QueryRow(context.Context, string, ...any) pgx.Row { return noRows{} }

// noRows is a result without rows.
type noRows struct{ pgx.Rows }

func (noRows) Next() bool        { return false }
func (noRows) Close()            {}
func (noRows) Err() error        { return nil }
func (noRows) Scan(...any) error { return errOnlyLists }
