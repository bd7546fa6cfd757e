package hub

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/work/attempt"
	"github.com/deckhand-sh/deckhand/hub/work/kill"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// renewals is how many sweeps there are in one lease's time.
	renewals = 6
	maxSweep = 5 * time.Second
	// expiryInterval is how often expired checkpoints are looked for.
	expiryInterval = 10 * time.Minute
)

// sweeper puts tasks whose lease has ended, or whose timer has run out, back
// into the queue, gives kill orders again that are not confirmed, settles
// model calls that were lost, counts those that were settled after their task's
// end, and deletes expired checkpoints. The leader runs it; the rows' locks keep two of them apart
// while one takes over, and the rest may be done twice.
type sweeper struct {
	lifecycle.Runner

	budgets *budget.Ledger
	reports *attempt.Reports
	leases  *lease.Leases
	tasks   *task.Service
	kills   *kill.Switch
	store   *store.Store
	every   time.Duration
	log     hclog.Logger
}

// Start begins sweeping.
func (s *sweeper) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		var expired time.Time
		ticker := time.NewTicker(s.every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			n, err := s.leases.Sweep(ctx)
			if err != nil && ctx.Err() == nil {
				s.log.Warn("cannot sweep ended leases; will try again", "error", err)
			}
			if n > 0 {
				s.log.Info("put tasks of lost workers back into the queue", "tasks", n)
			}
			if _, err := s.tasks.Due(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot queue the tasks whose time has come; will try again", "error", err)
			}
			if err := s.kills.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot give kill orders again; will try again", "error", err)
			}
			if _, err := s.budgets.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot settle lost model calls; will try again", "error", err)
			}
			if _, err := s.reports.CountLate(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot count late model calls; will try again", "error", err)
			}
			if time.Since(expired) < expiryInterval {
				continue
			}
			expired = time.Now()
			if _, err := s.store.ExpireCheckpoints(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot delete expired checkpoints; will try again", "error", err)
			}
		}
	})
}
