// Package rotation replaces the data key of an organisation without downtime. Begin
// creates a new key, and Proceed re-encrypts in the background.
//
//	requested --- a new key encrypts, the old ones decrypt ---> re-encrypting, in small batches
//	re-encrypting --- nothing is encrypted with an old key, and no hub can encrypt with one ---> old keys deleted
//
// A row is re-encrypted only if it is unchanged when it is written: a concurrent change
// wins. A hub that dies in between leaves rows of either key, which all hubs can decrypt;
// the next leader goes over all of them again. An old key is deleted only when a scan of
// the whole database finds nothing encrypted with it, after the last moment at which any
// hub could have used it; if something cannot be decrypted, the key is kept.
package rotation

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// Settle is how long after its replacement a key may still have sealed something:
// as long as a hub may seal without looking for newer ones, and what it wrote then
// is in progress.
const Settle = vault.MaxAge + 40*time.Second

// Config holds the dependencies of a rotation.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Vault    *vault.Vault
	// Settle is Settle; shorter only in tests.
	Settle time.Duration
	// Every is how often the leader looks whether there is something to do.
	Every time.Duration
	// Blocks is how many blocks of a table are read at once; 0 for 256.
	Blocks int64
	Log    hclog.Logger
}

// Rotation is the leader's part. It is a lifecycle.Service.
type Rotation struct {
	lifecycle.Runner

	cfg Config
}

// New creates a Rotation.
func New(cfg Config) *Rotation {
	if cfg.Settle == 0 {
		cfg.Settle = Settle
	}
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.Blocks == 0 {
		cfg.Blocks = 256
	}
	return &Rotation{cfg: cfg}
}

// State is how far a rotation is.
type State struct {
	db.Keyset

	Primary uint32
	Keys    int
}

func (r *Rotation) state(row db.Keyset) (State, error) {
	primary, keys, err := r.cfg.Vault.Describe(row.Keys)
	return State{row, primary, keys}, err
}

// Get returns the state of the keys.
func (r *Rotation) Get(ctx context.Context) (State, error) {
	row, err := r.cfg.Store.GetKeyset(ctx)
	if err != nil {
		return State{}, fmt.Errorf("load the keyset: %w", err)
	}
	return r.state(row)
}

// Begin creates a new key, which encrypts from now on.
func (r *Rotation) Begin(ctx context.Context, orgID string, by event.Actor) (state State, err error) {
	err = r.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.LockKeyset(ctx)
		if err != nil {
			return fmt.Errorf("load the keyset: %w", err)
		}
		if since := row.RotatingSince; since != nil {
			return fault.New(fault.Precondition, "the keys are being rotated, since %s", since.UTC().Format(time.RFC3339)).
				WithFix("wait for it: deckhand vault show")
		}
		before, _, err := r.cfg.Vault.Describe(row.Keys)
		if err != nil {
			return err
		}
		keys, err := r.cfg.Vault.Renewed(row.Keys)
		if err != nil {
			return err
		}
		stored, err := tx.RotateKeyset(ctx, db.RotateKeysetParams{Keys: keys, RotatedBy: by.ID, RotatedOrg: &orgID})
		if err != nil {
			return fmt.Errorf("store the keyset: %w", err)
		}
		if state, err = r.state(stored); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "vault.rotated", ObjectKind: "vault", ObjectID: fmt.Sprint(state.Primary),
			Before: map[string]any{"primary_key": before}, After: map[string]any{"primary_key": state.Primary},
		})
	})
	if err != nil {
		return State{}, err
	}
	return state, r.cfg.Vault.Refresh(ctx)
}

// Start looks after rotations.
func (r *Rotation) Start(ctx context.Context) error {
	return r.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(r.cfg.Every)
		defer ticker.Stop()
		for {
			if err := r.Proceed(ctx); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn("cannot continue the rotation of the vault's keys; will try again", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}

// Proceed re-encrypts what old keys have encrypted, once, and deletes these keys when
// nothing is left.
func (r *Rotation) Proceed(ctx context.Context) error {
	state, err := r.Get(ctx)
	if err != nil || state.RotatingSince == nil {
		return err
	}
	if err := r.cfg.Vault.Refresh(ctx); err != nil {
		return err
	}
	prefix := vault.Prefix(state.Primary)
	for _, c := range store.SealedColumns {
		n, err := r.reseal(ctx, c, prefix)
		if err != nil {
			return fmt.Errorf("encrypt %s.%s again: %w", c.Table, c.Name, err)
		}
		if n > 0 {
			r.cfg.Log.Info("re-encrypted with the vault's new key", "table", c.Table, "column", c.Name, "rows", n)
		}
	}
	return r.retire(ctx, state, prefix)
}

// retire deletes the old keys when nothing is sealed with them.
func (r *Rotation) retire(ctx context.Context, state State, prefix []byte) error {
	return r.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.LockKeyset(ctx)
		if err != nil {
			return fmt.Errorf("load the keyset: %w", err)
		}
		if row.Version != state.Version || row.RotatingSince == nil || row.Now.Sub(*row.RotatingSince) < r.cfg.Settle {
			return nil
		}
		for _, c := range store.SealedColumns {
			left, err := r.cfg.Store.AnySealedOtherwise(ctx, c, prefix)
			if err != nil {
				return fmt.Errorf("find values that old keys have encrypted in %s.%s: %w", c.Table, c.Name, err)
			}
			if left {
				return nil
			}
		}
		keys, err := r.cfg.Vault.Retired(row.Keys)
		if err != nil {
			return err
		}
		if err := tx.RetireKeys(ctx, keys); err != nil {
			return fmt.Errorf("store the keyset: %w", err)
		}
		tx.AfterCommit(func() { r.cfg.Log.Info("deleted the vault's old keys: nothing is encrypted with them") })
		return audit.Append(tx, audit.Entry{
			OrgID: *row.RotatedOrg, By: event.Hub, Action: "vault.keys_deleted", ObjectKind: "vault", ObjectID: fmt.Sprint(state.Primary),
			Before: map[string]any{"keys": state.Keys}, After: map[string]any{"keys": 1},
		})
	})
}

// reseal goes over a column once, and returns how many rows it has written.
func (r *Rotation) reseal(ctx context.Context, c store.SealedColumn, prefix []byte) (written int64, err error) {
	blocks, err := r.cfg.Store.BlocksOf(ctx, c.Table)
	if err != nil {
		return 0, err
	}
	for from := int64(0); from <= blocks; from += r.cfg.Blocks {
		values, err := r.cfg.Store.SealedOtherwise(ctx, c, prefix, from, from+r.cfg.Blocks)
		if err != nil {
			return written, err
		}
		for i, v := range values {
			plain, err := r.cfg.Vault.Open(v.Value, v.Object)
			if err != nil {
				return written, err
			}
			if values[i].Again, err = r.cfg.Vault.Seal(plain, v.Object); err != nil {
				return written, err
			}
		}
		n, err := r.cfg.Store.Reseal(ctx, c, values)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
