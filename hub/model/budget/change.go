package budget

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// change is one reservation or settlement that waits to be stored.
type change struct {
	reserve *reserve
	settle  *settle
	left    bool // under Ledger.mu: its caller is gone
	err     error
	done    chan struct{}
}

const (
	// maxTogether is how many changes go in one transaction.
	maxTogether = 256
	applyTime   = 20 * time.Second
)

// change stores a change together with those of the same organisation that wait at the
// same moment. The result is in the change.
func (l *Ledger) change(ctx context.Context, orgID string, c *change) error {
	c.done = make(chan struct{})
	l.mu.Lock()
	queue, served := l.waiting[orgID]
	l.waiting[orgID] = append(queue, c)
	l.mu.Unlock()
	if !served {
		l.work.Go(func() { l.serve(orgID) })
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	default:
		c.left = true
		return context.Cause(ctx)
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
		if err := l.store(orgID, batch); err != nil && len(batch) > 1 {
			// One that cannot be stored holds up no other.
			for _, c := range batch {
				c.err = l.store(orgID, []*change{c})
			}
		} else {
			for _, c := range batch {
				c.err = err
			}
		}
		l.mu.Lock()
		for _, c := range batch {
			close(c.done)
			if r := c.reserve; c.left && c.err == nil && r != nil && r.poor == nil {
				l.work.Go(func() { l.release(r.Reservation) })
			}
		}
		l.mu.Unlock()
	}
}

func (l *Ledger) store(orgID string, batch []*change) error {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	return l.cfg.Store.TxLocked(ctx, func(ahead *db.Queries) error { return ahead.LockBudgets(ctx, orgID) }, func(q, last *db.Queries) error { return l.apply(ctx, q, last, orgID, batch) })
}
