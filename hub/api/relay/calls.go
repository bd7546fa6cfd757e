package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
)

const (
	// lookEvery is how long a call may continue after its lease has ended: a kill order
	// must leave nothing running after 2 s.
	lookEvery = 500 * time.Millisecond
	// lookTimeout limits one query of the leases.
	lookTimeout = 5 * time.Second
)

// calls are those in progress. The zero value is ready.
type calls struct {
	mu   sync.Mutex
	open map[*call]struct{}
}

// begin registers a call. The context that it returns ends with done, and when the call
// is cut off.
func (c *calls) begin(ctx context.Context, one *call) (_ context.Context, done func()) {
	ctx, cut := context.WithCancelCause(ctx)
	one.cut = cut
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*call]struct{}{}
	}
	c.open[one] = struct{}{}
	return ctx, func() {
		cut(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, one)
	}
}

// leases returns those of the calls in progress, each once.
func (c *calls) leases() []lease.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := make(map[lease.Lease]bool, len(c.open))
	out := make([]lease.Lease, 0, len(c.open))
	for one := range c.open {
		if !seen[one.lease] {
			seen[one.lease] = true
			out = append(out, one.lease)
		}
	}
	return out
}

// end cuts off the calls of a lease, and returns how many there were.
func (c *calls) end(le lease.Lease) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for one := range c.open {
		if one.lease == le {
			one.cut(lease.Stale(le))
			n++
		}
	}
	return n
}

// uses returns the credentials of the calls in progress, each once. What the hub
// was started with is not disconnected.
func (c *calls) uses() []credential.Use {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []credential.Use
	for one := range c.open {
		if use := one.use(); !one.access.ConnectedAt.IsZero() && !slices.Contains(out, use) {
			out = append(out, use)
		}
	}
	return out
}

// disconnect cuts off the calls of a credential, and returns how many there were.
func (c *calls) disconnect(use credential.Use) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for one := range c.open {
		if one.use() == use && !one.access.ConnectedAt.IsZero() {
			one.cut(credential.NotConnected(use.Provider))
			n++
		}
	}
	return n
}

func (c *call) use() credential.Use {
	return credential.Use{OrgID: c.reservation.OrgID, Provider: c.access.Provider.Name}
}

// Start begins to look after the calls in progress.
func (r *Relay) Start(ctx context.Context) error {
	return r.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				r.look(ctx)
			}
		}
	})
}

// look cuts off the calls whose lease has ended or whose provider is
// disconnected.
func (r *Relay) look(ctx context.Context) {
	held := r.calls.leases()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	ended, err := r.cfg.Ended(ctx, held)
	if err != nil {
		r.cfg.Log.Warn("cannot check the leases of model calls; will try again", "calls", len(held), "error", err)
		return
	}
	for _, le := range ended {
		if n := r.calls.end(le); n > 0 {
			r.cfg.Log.Info("cut off a model call: its lease has ended", "task_id", le.TaskID, "attempt", le.Attempt, "calls", n)
		}
	}
	uses := r.calls.uses()
	if len(uses) == 0 {
		return
	}
	gone, err := r.cfg.Disconnected(ctx, uses)
	if err != nil {
		r.cfg.Log.Warn("cannot check the providers of model calls; will try again", "error", err)
		return
	}
	for _, use := range gone {
		if n := r.calls.disconnect(use); n > 0 {
			r.cfg.Log.Info("cut off model calls: their provider is disconnected", "provider", use.Provider, "calls", n)
		}
	}
}
