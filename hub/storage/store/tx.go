package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Tx runs fn in one transaction at read committed; an error rolls it back.
func (s *Store) Tx(ctx context.Context, fn func(q *db.Queries) error) error {
	return s.TxThen(ctx, func(q, _ *db.Queries) error { return fn(q) })
}

// TxThen is Tx with last in addition, which queues statements that are sent together with
// COMMIT. Their errors fail the transaction; their results are discarded.
//
// A transaction of the hub is short, and most of its time is spent between hub and
// database. So BEGIN is sent with the first statement, and COMMIT with the last ones.
func (s *Store) TxThen(ctx context.Context, fn func(q, last *db.Queries) error) error {
	return s.tx(ctx, nil, fn)
}

// TxLocked is TxThen with statements that go ahead of fn's first one, and are
// sent together with it: locks, mostly. Each of fn's statements sees what was
// committed before they were done. Their errors fail fn's first statement; their
// results are not seen.
func (s *Store) TxLocked(ctx context.Context, lock func(ahead *db.Queries) error, fn func(q, last *db.Queries) error) error {
	ahead := &collector{}
	if err := lock(db.New(ahead)); err != nil {
		return err
	}
	return s.tx(ctx, ahead.statements, fn)
}

func (s *Store) tx(ctx context.Context, ahead []statement, fn func(q, last *db.Queries) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("take a database connection: %w", err)
	}
	p := &pipeline{conn: conn, ahead: ahead}
	// Also when fn panics: a connection in a transaction is closed, not reused.
	defer conn.Release()
	last := &collector{}
	if err = fn(db.New(p), db.New(last)); err == nil {
		if err = touch(ctx, p, last); err == nil {
			err = p.commit(ctx, last.statements)
		}
	}
	if err != nil {
		p.rollback(ctx)
	}
	return err
}

// pipeline sends statements on one connection, with BEGIN and the queued ones before the
// first of them.
type pipeline struct {
	conn  *pgxpool.Conn
	ahead []statement
	begun bool
}

var _ db.DBTX = (*pipeline)(nil)

// first sends BEGIN, the queued statements and a statement, and returns where the
// statement's result is read next.
func (p *pipeline) first(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	p.begun = true
	batch := &pgx.Batch{}
	batch.Queue("begin")
	for _, s := range p.ahead {
		batch.Queue(s.sql, s.args...)
	}
	batch.Queue(sql, args...)
	results := p.conn.SendBatch(ctx, batch)
	for range 1 + len(p.ahead) {
		if _, err := results.Exec(); err != nil {
			return nil, errors.Join(err, results.Close())
		}
	}
	return results, nil
}

// Exec implements db.DBTX.
func (p *pipeline) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if p.begun {
		return p.conn.Exec(ctx, sql, args...)
	}
	results, err := p.first(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, firstOf(err, results.Close())
}

// Query implements db.DBTX.
func (p *pipeline) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if p.begun {
		return p.conn.Query(ctx, sql, args...)
	}
	results, err := p.first(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, firstOf(err, results.Close())
	}
	return &firstRows{Rows: rows, results: results}, nil
}

// QueryRow implements db.DBTX.
func (p *pipeline) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if p.begun {
		return p.conn.QueryRow(ctx, sql, args...)
	}
	results, err := p.first(ctx, sql, args)
	if err != nil {
		return failedRow{err}
	}
	return firstRow{results.QueryRow(), results}
}

// commit sends the last statements and COMMIT at once.
func (p *pipeline) commit(ctx context.Context, last []statement) error {
	batch := &pgx.Batch{}
	if !p.begun {
		if last = append(p.ahead[:len(p.ahead):len(p.ahead)], last...); len(last) == 0 {
			return nil
		}
		p.begun = true
		batch.Queue("begin")
	}
	for _, s := range last {
		batch.Queue(s.sql, s.args...)
	}
	batch.Queue("commit")
	results := p.conn.SendBatch(ctx, batch)
	for range batch.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			return firstOf(err, results.Close())
		}
	}
	tag, err := results.Exec()
	if err = firstOf(err, results.Close()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// The response to COMMIT of an aborted transaction is a rollback.
	if tag.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	p.begun = false
	return nil
}

// rollback ends the transaction. If that fails the connection is closed, and the database
// rolls back.
func (p *pipeline) rollback(ctx context.Context) {
	if !p.begun {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := p.conn.Exec(ctx, "rollback"); err != nil {
		_ = p.conn.Conn().Close(ctx)
	}
}

// firstOf returns the first error: that of closing a batch repeats the one that
// broke it.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

type firstRow struct {
	pgx.Row

	results pgx.BatchResults
}

func (r firstRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	return firstOf(err, r.results.Close())
}

type firstRows struct {
	pgx.Rows

	results pgx.BatchResults
	err     error
}

func (r *firstRows) Close() {
	r.Rows.Close()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

func (r *firstRows) Err() error { return firstOf(r.Rows.Err(), r.err) }

// collector keeps statements for later.
type collector struct{ statements []statement }

type statement struct {
	sql  string
	args []any
}

var _ db.DBTX = (*collector)(nil)

// Exec implements db.DBTX.
func (c *collector) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.statements = append(c.statements, statement{sql, args})
	return pgconn.CommandTag{}, nil
}

// Query implements db.DBTX: there is no result to answer.
func (*collector) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("a statement that goes with COMMIT has no rows to answer")
}

// QueryRow implements db.DBTX; the row leaves its destinations as they are.
func (c *collector) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	c.statements = append(c.statements, statement{sql, args})
	return unseenRow{}
}

type unseenRow struct{}

func (unseenRow) Scan(...any) error { return nil }
