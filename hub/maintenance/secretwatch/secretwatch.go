// Package secretwatch keeps each organisation's redactor up to date with the secrets
// that any hub has stored: provider keys, webhook secrets of triggers, credentials of
// notification destinations, passwords of registries and credentials of the egress.
//
// What a hub passes on may contain any stored secret, so a Watcher knows all of them
// before the hub serves, finds those that other hubs store within seconds, and forgets
// those that were rotated, revoked or deleted. A secret that cannot be decrypted is
// logged and is not masked; while the database cannot be read, the redactor keeps
// what it has.
package secretwatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	egresscredential "github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	// learnEvery is how often a hub looks for secrets that other hubs have stored.
	learnEvery = 2 * time.Second
	// learnSlack is how long before the last look a row may have been written that
	// was not visible then, because its transaction was in progress.
	learnSlack = time.Minute
	// reviewEvery is how often it reads all of them, and removes those that are gone.
	reviewEvery = 30 * time.Second
	ever        = 100 * 365 * 24 * time.Hour
)

// Config holds the dependencies of a Watcher.
type Config struct {
	Store  *store.Store
	Vault  *vault.Vault
	Redact *redact.Redactor
	// Credentials, Triggers, Destinations, Registries and Egress decrypt their own secrets.
	Credentials, Triggers, Destinations, Registries, Egress Opener
	Log                                                     hclog.Logger
}

// Opener decrypts the secrets of a stored row.
type Opener interface {
	Values(row db.SealedWithinRow) ([]string, error)
}

// Watcher keeps redactors up to date. It is a lifecycle.Service.
type Watcher struct {
	lifecycle.Runner

	cfg Config
}

// New creates a Watcher.
func New(cfg Config) *Watcher { return &Watcher{cfg: cfg} }

// Start returns when the redactors know all stored secrets, and then looks for changes.
func (w *Watcher) Start(ctx context.Context) error {
	last := time.Now()
	reviewed := last
	missing := "" // the root key that this hub was found not to have
	if err := w.Review(ctx); err != nil {
		return err
	}
	return w.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(learnEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			if err := w.cfg.Vault.Refresh(ctx); err != nil && ctx.Err() == nil {
				w.cfg.Log.Warn("cannot look for newer keys of the vault; will try again", "error", err)
			}
			why := w.cfg.Vault.Unreadable()
			switch {
			case why != nil && why.Missing != missing:
				w.cfg.Log.Error("this hub does not have the root key of the vault: it works until the keys are next rotated", "missing", why.Missing, "error", why.Err)
				missing = why.Missing
			case why == nil && missing != "":
				w.cfg.Log.Info("this hub has the root key of the vault again")
				missing = ""
			}
			now := time.Now()
			look := func(ctx context.Context) error { return w.learn(ctx, now.Sub(last)+learnSlack) }
			if now.Sub(reviewed) >= reviewEvery {
				look = w.Review
			}
			if err := look(ctx); err != nil {
				if ctx.Err() == nil {
					w.cfg.Log.Warn("cannot look for new secrets; will try again", "error", err)
				}
				continue
			}
			if last = now; now.Sub(reviewed) >= reviewEvery {
				reviewed = now
			}
		}
	})
}

// learn adds the secrets that were stored within that time.
func (w *Watcher) learn(ctx context.Context, within time.Duration) error {
	_, err := w.sealed(ctx, within)
	return err
}

// Review adds all stored secrets, and removes those that are no longer stored.
func (w *Watcher) Review(ctx context.Context) error {
	before := map[string]map[string][]string{}
	w.cfg.Redact.Orgs(func(orgID string, mask *redact.Redactor) { before[orgID] = mask.Sources() })
	stored, err := w.sealed(ctx, ever)
	if err != nil {
		return err
	}
	for orgID, sources := range before {
		mask := w.cfg.Redact.Org(orgID)
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

// owner identifies what a secret belongs to: a provider, a trigger or a destination.
type owner struct{ orgID, source string }

// sealed adds the secrets that were stored within that time, and returns them.
func (w *Watcher) sealed(ctx context.Context, within time.Duration) (map[owner][]string, error) {
	rows, err := w.cfg.Store.SealedWithin(ctx, within)
	if err != nil {
		return nil, fmt.Errorf("look for secrets: %w", err)
	}
	out := map[owner][]string{}
	for _, row := range rows {
		source, values, err := w.open(row)
		if err != nil {
			// Those who use it get an error; the others are still masked.
			w.cfg.Log.Error("a secret cannot be opened, and so is not masked", "kind", row.Kind, "id", row.ID, "error", err)
			continue
		}
		of := owner{row.OrgID, source}
		out[of] = append(out[of], values...)
	}
	for of, values := range out {
		w.cfg.Redact.Org(of.orgID).Learn(of.source, values...)
	}
	return out, nil
}

func (w *Watcher) open(row db.SealedWithinRow) (source string, values []string, err error) {
	switch row.Kind {
	case "credential", "login":
		values, err = w.cfg.Credentials.Values(row)
		return credential.Source(row.ID), values, err
	case "trigger":
		values, err = w.cfg.Triggers.Values(row)
		return trigger.Source(row.ID), values, err
	case "egress credential":
		values, err = w.cfg.Egress.Values(row)
		return egresscredential.Source(row.ID), values, err
	case "registry":
		values, err = w.cfg.Registries.Values(row)
		return image.Source(row.ID), values, err
	default:
		values, err = w.cfg.Destinations.Values(row)
		return notification.Source(row.ID), values, err
	}
}
