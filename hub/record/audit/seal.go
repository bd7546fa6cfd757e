package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	defaultEvery = time.Second
	// sealBatch bounds a head's entries, and what is held in memory.
	sealBatch = 10_000
	// KeyName is the name under which the store keeps the key's seed.
	KeyName = "audit-key"
)

// Secrets keeps secrets sealed.
type Secrets interface {
	// LoadSecret returns a secret's value; fault.NotFound when there is none.
	LoadSecret(ctx context.Context, name string) ([]byte, error)
	// CreateSecret stores a value unless the name is taken, and returns the stored value.
	CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)
}

// OpenKey returns the installation's key, which is created if there is none.
func OpenKey(ctx context.Context, s Secrets) (ed25519.PrivateKey, error) {
	seed, err := s.LoadSecret(ctx, KeyName)
	if fault.Is(err, fault.NotFound) {
		var made ed25519.PrivateKey
		if _, made, err = ed25519.GenerateKey(nil); err == nil {
			seed, err = s.CreateSecret(ctx, KeyName, made.Seed())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the audit's key: %w", err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the audit's key has %d bytes", len(seed))
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// SealerConfig holds the dependencies of a Sealer.
type SealerConfig struct {
	Store    *store.Store
	Recorder *event.Recorder
	Key      ed25519.PrivateKey
	// Every is how often entries are sealed; 0 for 1 s.
	Every time.Duration
	// Alert, if set, is called for each entry of high or critical severity, in the transaction
	// that seals it: once.
	Alert func(ctx context.Context, tx *event.Tx, e db.AuditEntry) error
	Log   hclog.Logger
}

// Sealer adds entries to their organisations' chains, and signs them. The leader runs it;
// two at once cannot conflict, because only one of them can store a head with the next
// number.
type Sealer struct {
	lifecycle.Runner

	cfg SealerConfig
}

// NewSealer creates a Sealer.
func NewSealer(cfg SealerConfig) *Sealer {
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Alert == nil {
		cfg.Alert = func(context.Context, *event.Tx, db.AuditEntry) error { return nil }
	}
	return &Sealer{cfg: cfg}
}

// Start begins to seal.
func (s *Sealer) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(s.cfg.Every)
		defer tick.Stop()
		for {
			if _, err := s.Seal(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("cannot seal audit entries; will try again", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// Seal seals all pending entries, and returns how many those were.
func (s *Sealer) Seal(ctx context.Context) (int, error) {
	orgs, err := s.cfg.Store.UnsealedOrganisations(ctx)
	if err != nil {
		return 0, fmt.Errorf("list what is to be sealed: %w", err)
	}
	sealed := 0
	var failed []error
	for _, org := range orgs {
		for {
			n, err := s.seal(ctx, org)
			sealed += n
			if err != nil {
				failed = append(failed, fmt.Errorf("seal the entries of %s: %w", org, err))
			}
			if err != nil || n < sealBatch {
				break
			}
		}
	}
	return sealed, errors.Join(failed...)
}

// seal seals one batch of an organisation's entries.
func (s *Sealer) seal(ctx context.Context, orgID string) (int, error) {
	sealed := 0
	return sealed, s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		last, err := tx.LastAuditHead(ctx, orgID)
		if err != nil && !store.IsNotFound(err) {
			return fmt.Errorf("find the last head: %w", err)
		}
		rows, err := tx.TakeUnsealed(ctx, db.TakeUnsealedParams{OrgID: orgID, MaxRows: sealBatch})
		if err != nil || len(rows) == 0 {
			return err
		}
		var hash auditlog.Hash
		copy(hash[:], last.Hash)
		ids, positions := make([]int64, len(rows)), make([]int64, len(rows))
		for i, row := range rows {
			positions[i] = last.Position + int64(i) + 1
			line, err := entry(positions[i], row.AuditEntry).Line()
			if err != nil {
				return err
			}
			hash, ids[i] = auditlog.Next(hash, line), row.AuditEntry.ID
			if severity := row.AuditEntry.Severity; severity == High || severity == Critical {
				if err := s.cfg.Alert(ctx, tx, row.AuditEntry); err != nil {
					return fmt.Errorf("alert of entry %d: %w", row.AuditEntry.ID, err)
				}
			}
		}
		if err := tx.ChainEntries(ctx, db.ChainEntriesParams{OrgID: orgID, Positions: positions, Ids: ids}); err != nil {
			return fmt.Errorf("chain entries: %w", err)
		}
		head := auditlog.Head{
			Organisation: orgID, Number: last.Number + 1, Position: last.Position + int64(len(ids)), Hash: hex.EncodeToString(hash[:]),
			Time: time.Now().UTC().Truncate(time.Microsecond), // as the database keeps it
		}.Sign(s.cfg.Key)
		sealed = len(ids)
		return tx.AddAuditHead(ctx, db.AddAuditHeadParams{
			OrgID: orgID, Number: head.Number, Position: head.Position, Hash: hash[:], Time: head.Time, Signature: head.Signature,
		})
	})
}

// entry returns a stored entry as it is exported.
func entry(position int64, e db.AuditEntry) auditlog.Entry {
	return auditlog.Entry{
		Position: position, ID: e.ID, Time: e.Time, ActorKind: e.ActorKind, ActorID: e.ActorID, Action: e.Action, ObjectKind: e.ObjectKind,
		ObjectID: e.ObjectID, Severity: e.Severity, Before: e.Before, After: e.After, Reason: e.Reason, Address: e.Address, UserAgent: e.UserAgent,
	}
}
