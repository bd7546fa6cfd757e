package hub

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	// learnEvery is how often a hub looks for secrets that other hubs have sealed.
	learnEvery = 2 * time.Second
	// learnSlack is how much longer ago than the last look a row may have been
	// written that was not to be seen then: its transaction was in progress.
	learnSlack = time.Minute
	// reviewEvery is how often it looks at all that there are, and has those
	// forgotten that have gone since.
	reviewEvery = 30 * time.Second
	ever        = 100 * 365 * 24 * time.Hour
)

// secretWatcher has each organisation's redactor know the secrets that it has stored,
// also those that this hub has not used itself, since what it passes on may hold
// any of them, and forget those that were rotated, revoked or deleted.
type secretWatcher struct {
	lifecycle.Runner

	hub *Hub
}

// Start knows all that there are when it returns, and looks for new ones.
func (k *secretWatcher) Start(ctx context.Context) error {
	last := time.Now()
	reviewed := last
	missing := "" // the root key that this hub was found not to have
	if err := k.review(ctx); err != nil {
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
			why := k.hub.vault.Unreadable()
			switch {
			case why != nil && why.Missing != missing:
				k.hub.cfg.Log.Error("this hub does not have the root key of the vault: it works until the keys are next rotated", "missing", why.Missing, "error", why.Err)
				missing = why.Missing
			case why == nil && missing != "":
				k.hub.cfg.Log.Info("this hub has the root key of the vault again")
				missing = ""
			}
			now := time.Now()
			look := func(ctx context.Context) error { return k.learn(ctx, now.Sub(last)+learnSlack) }
			if now.Sub(reviewed) >= reviewEvery {
				look = k.review
			}
			if err := look(ctx); err != nil {
				if ctx.Err() == nil {
					k.hub.cfg.Log.Warn("cannot look for new secrets; will try again", "error", err)
				}
				continue
			}
			if last = now; now.Sub(reviewed) >= reviewEvery {
				reviewed = now
			}
		}
	})
}

// learn has those known that were sealed within that time.
func (k *secretWatcher) learn(ctx context.Context, within time.Duration) error {
	_, err := k.sealed(ctx, within)
	return err
}

// review has all known that there are, and all others forgotten that were known
// before it looked.
func (k *secretWatcher) review(ctx context.Context) error {
	before := map[string]map[string][]string{}
	k.hub.cfg.Redact.Orgs(func(orgID string, mask *redact.Redactor) { before[orgID] = mask.Sources() })
	stored, err := k.sealed(ctx, ever)
	if err != nil {
		return err
	}
	for orgID, sources := range before {
		mask := k.hub.cfg.Redact.Org(orgID)
		for source, values := range sources {
			now := stored[owner{orgID, source}]
			gone := slices.DeleteFunc(values, func(v string) bool { return slices.Contains(now, v) })
			if len(gone) > 0 {
				mask.Forget(source, gone...)
			}
		}
	}
	return nil
}

// owner is what has secrets: a provider's key, a trigger or a destination.
type owner struct{ orgID, source string }

// sealed has what was sealed within that time known, and returns it.
func (k *secretWatcher) sealed(ctx context.Context, within time.Duration) (map[owner][]string, error) {
	rows, err := k.hub.store.SealedWithin(ctx, within)
	if err != nil {
		return nil, fmt.Errorf("look for secrets: %w", err)
	}
	out := map[owner][]string{}
	for _, row := range rows {
		source, values, err := k.open(row)
		if err != nil {
			// Its users get an error; it is no reason not to know the others.
			k.hub.cfg.Log.Error("a secret cannot be opened, and so is not masked", "kind", row.Kind, "id", row.ID, "error", err)
			continue
		}
		of := owner{row.OrgID, source}
		out[of] = append(out[of], values...)
	}
	for of, values := range out {
		k.hub.cfg.Redact.Org(of.orgID).Learn(of.source, values...)
	}
	return out, nil
}

func (k *secretWatcher) open(row db.SealedWithinRow) (source string, values []string, err error) {
	switch row.Kind {
	case "credential", "login":
		values, err = k.hub.credentials.Values(row)
		return credential.Source(row.ID), values, err
	case "trigger":
		values, err = k.hub.triggers.Values(row)
		return trigger.Source(row.ID), values, err
	default:
		values, err = k.hub.notify.Values(row)
		return notification.Source(row.ID), values, err
	}
}
