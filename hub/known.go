package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// learnEvery is how often a hub looks for secrets that other hubs have sealed.
	learnEvery = 2 * time.Second
	// learnSlack is how much longer ago than the last look a row may have been
	// written that was not to be seen then: its transaction was under way.
	learnSlack = time.Minute
	ever       = 100 * 365 * 24 * time.Hour
)

// known has the redactor know the secrets that are in use, also those that this
// hub has not used itself: what it passes on may hold any of them.
type known struct {
	lifecycle.Runner

	hub *Hub
}

// Start knows all that there are when it returns, and looks for new ones.
func (k *known) Start(ctx context.Context) error {
	last := time.Now()
	if err := k.learn(ctx, ever); err != nil {
		return err
	}
	return k.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(learnEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			if err := k.hub.vault.Refresh(ctx); err != nil && ctx.Err() == nil {
				k.hub.cfg.Log.Warn("cannot look for newer keys of the vault; will try again", "error", err)
			}
			now := time.Now()
			if err := k.learn(ctx, now.Sub(last)+learnSlack); err != nil {
				if ctx.Err() == nil {
					k.hub.cfg.Log.Warn("cannot look for new secrets; will try again", "error", err)
				}
				continue
			}
			last = now
		}
	})
}

// learn has those known that were sealed within that time.
func (k *known) learn(ctx context.Context, within time.Duration) error {
	rows, err := k.hub.store.SealedWithin(ctx, within)
	if err != nil {
		return fmt.Errorf("look for secrets: %w", err)
	}
	var values []string
	for _, row := range rows {
		found, err := k.open(row)
		if err != nil {
			// Whoever uses it is told; it is no reason not to know the others.
			k.hub.cfg.Log.Error("a secret cannot be opened, and so is not masked", "kind", row.Kind, "id", row.ID, "error", err)
			continue
		}
		values = append(values, found...)
	}
	k.hub.cfg.Redact.Add(values...)
	return nil
}

func (k *known) open(row db.SealedWithinRow) ([]string, error) {
	switch row.Kind {
	case "credential", "login":
		return k.hub.credentials.Values(row)
	case "trigger":
		return k.hub.triggers.Values(row)
	default:
		return k.hub.notify.Values(row)
	}
}
