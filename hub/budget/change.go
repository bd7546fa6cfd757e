package budget

import (
	"context"
	"encoding/json"
	"time"

	"github.com/deckhand-sh/deckhand/hub/store/db"
)

// change is one reservation or settlement that waits to be stored.
type change struct {
	apply func(ctx context.Context, q *db.Queries) (json.RawMessage, error)
	// undo takes it back when nobody waits for its answer; nil where it stands.
	undo   func()
	left   bool // under Ledger.mu: its caller is gone
	answer json.RawMessage
	err    error
	done   chan struct{}
}

const (
	// maxTogether is how many changes go in one transaction.
	maxTogether = 64
	applyTime   = 20 * time.Second
)

// change has a change stored together with those of the same organisation that
// wait at the same moment, and answers what it answered.
func (l *Ledger) change(ctx context.Context, orgID string, apply func(ctx context.Context, q *db.Queries) (json.RawMessage, error), undo func()) (json.RawMessage, error) {
	c := &change{apply: apply, undo: undo, done: make(chan struct{})}
	l.mu.Lock()
	queue, served := l.waiting[orgID]
	l.waiting[orgID] = append(queue, c)
	l.mu.Unlock()
	if !served {
		l.work.Go(func() { l.serve(orgID) })
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.done:
		return c.answer, c.err
	default:
		c.left = true
		return nil, context.Cause(ctx)
	}
}

// serve stores an organisation's changes until none waits.
func (l *Ledger) serve(orgID string) {
	for {
		l.mu.Lock()
		queue := l.waiting[orgID]
		if len(queue) == 0 {
			delete(l.waiting, orgID)
			l.mu.Unlock()
			return
		}
		n := min(len(queue), maxTogether)
		batch := queue[:n:n]
		l.waiting[orgID] = queue[n:]
		l.mu.Unlock()
		if err := l.store(batch); err != nil && len(batch) > 1 {
			// One that cannot be stored holds up no other.
			for _, c := range batch {
				c.err = l.store([]*change{c})
			}
		} else {
			for _, c := range batch {
				c.err = err
			}
		}
		l.mu.Lock()
		for _, c := range batch {
			close(c.done)
			if c.left && c.err == nil && c.undo != nil {
				l.work.Go(c.undo)
			}
		}
		l.mu.Unlock()
	}
}

func (l *Ledger) store(batch []*change) error {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	return l.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		for _, c := range batch {
			var err error
			if c.answer, err = c.apply(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
}
