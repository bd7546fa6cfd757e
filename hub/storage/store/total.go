package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// MaxCounted is how many rows of a list are counted: to count on costs more with each row, and
// nobody reads so many.
const MaxCounted = 10_000

// Total is how many rows a list has on all its pages.
type Total struct {
	// Counted says that the list was counted.
	Counted bool
	Count   int32
	// AtLeast says that there are more than Count, which is MaxCounted.
	AtLeast bool
}

type totalKey struct{}

// WithTotal has the list that is read with the context count all its rows into the total; see
// [Store.CountAll].
func WithTotal(ctx context.Context) (context.Context, *Total) {
	total := &Total{}
	return context.WithValue(ctx, totalKey{}, total), total
}

// CountAll counts the rows of a list if the context asks for it. list makes the list's own
// query, from its beginning and for at most so many rows, so that both have the same filters;
// the rows themselves are not read.
func (s *Store) CountAll(ctx context.Context, list func(q *db.Queries, maxRows int32) error) error {
	total, ok := ctx.Value(totalKey{}).(*Total)
	if !ok {
		return nil
	}
	c := &counter{on: s.pool}
	if err := list(db.New(c), MaxCounted+1); err != nil {
		return err
	}
	*total = Total{Counted: true, Count: int32(min(c.rows, MaxCounted)), AtLeast: c.rows > MaxCounted}
	return nil
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
