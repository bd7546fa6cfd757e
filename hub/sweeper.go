package hub

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/lease"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// renewals is how many sweeps there are in one lease's time.
	renewals = 6
	maxSweep = 5 * time.Second
)

// sweeper puts tasks whose lease has ended back into the queue. Every hub runs
// one; the rows' locks keep them apart.
type sweeper struct {
	lifecycle.Runner

	leases *lease.Leases
	every  time.Duration
	log    hclog.Logger
}

// Start begins sweeping.
func (s *sweeper) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
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
		}
	})
}
