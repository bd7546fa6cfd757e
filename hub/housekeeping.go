package hub

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const housekeepingInterval = 15 * time.Second

// housekeeping is what the leader does now and then: it deletes what has been
// kept long enough, and sees to what a hub that died has left.
type housekeeping struct {
	lifecycle.Runner

	hub   *Hub
	every time.Duration
}

// Start begins at once.
func (k *housekeeping) Start(ctx context.Context) error {
	return k.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(k.every)
		defer ticker.Stop()
		for {
			for what, do := range map[string]func(context.Context) error{
				"delete old events":                      k.hub.pruneEvents,
				"delete old deliveries":                  k.hub.triggers.Prune,
				"delete old notices":                     k.hub.notify.Prune,
				"delete old sessions":                    k.hub.sessions.Prune,
				"forget calls that no limit counts":      k.hub.policies.Prune,
				"forget hubs that died":                  k.hub.self.Forget,
				"follow commands that a hub left behind": k.hub.execs.AdoptAll,
			} {
				if err := do(ctx); err != nil && ctx.Err() == nil {
					k.hub.cfg.Log.Warn("cannot "+what+"; will try again", "error", err)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}

// pruneBatch is how many tasks are looked for at once.
const pruneBatch = 100

// pruneEvents deletes the events of tasks that ended longer ago than they are
// kept.
func (h *Hub) pruneEvents(ctx context.Context) error {
	if h.cfg.EventRetention == 0 {
		return nil
	}
	for {
		n, err := event.Prune(ctx, h.store, h.cfg.EventRetention, pruneBatch)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
