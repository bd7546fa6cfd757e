package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

const (
	// maxSelectors is how many selectors of an agent are kept for a user; those that were used
	// last stay.
	maxSelectors = browserlink.MaxTargets
	// selectorLife is how long one is kept without being used.
	selectorLife = 90 * 24 * time.Hour
	// A new selector has the confidence newSelector. A hit brings it nearer to 1 by hitSelector of
	// what is missing, a miss halves it, and below leastSelector it is not used.
	newSelector, hitSelector, leastSelector = 0.6, 0.3, 0.2
)

// Selectors returns the selectors of a run's agent, one for each key, those that were used last
// first. Of two with a key it returns the one that preferred prefers.
func (m *Memories) Selectors(ctx context.Context, r scope.Run, most int32) ([]db.Memory, error) {
	user, err := userID(ctx, m.cfg.Store.Queries, r.Viewer)
	if err != nil {
		return nil, err
	}
	rows, err := m.cfg.Store.SelectorsOf(ctx, db.SelectorsOfParams{OrgID: r.Viewer.OrgID, AgentID: r.AgentID, UserID: user, Least: leastSelector, MaxRows: most})
	if err != nil {
		return nil, fmt.Errorf("read the selectors of agent %s: %w", r.AgentID, err)
	}
	best := map[string]db.Memory{} // by key
	for _, row := range rows {
		if other, ok := best[row.Key]; !ok || preferred(row, other) {
			best[row.Key] = row
		}
	}
	return slices.DeleteFunc(rows, func(row db.Memory) bool { return best[row.Key].ID != row.ID }), nil
}

// preferred reports whether a run is given a rather than b, which have the same key: what is still
// used, then what a person answers for, then what is the user's own.
func preferred(a, b db.Memory) bool {
	used := func(is db.Memory) bool {
		return is.Confidence >= leastSelector && (is.ExpiresAt == nil || is.ExpiresAt.After(time.Now()))
	}
	switch {
	case used(a) != used(b):
		return used(a)
	case (a.ConfirmedBy != "") != (b.ConfirmedBy != ""):
		return a.ConfirmedBy != ""
	}
	return a.OnlyFor != "" && b.OnlyFor == ""
}

// UseSelector counts a use of the selector with the draft's key, or stores the draft's value in
// its place; without a value a selector that missed is only trusted less. What a person wrote or
// confirmed is counted and not changed, and a value that was deleted is not stored again while it
// can be restored. A selector is untrusted: its name is what a page says.
func (m *Memories) UseSelector(ctx context.Context, v visibility.Viewer, d Draft, hit, missed bool) error {
	return m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		var err error
		if d.OnlyFor, err = allow(ctx, tx.Queries, v, d.Scope); err != nil {
			return err
		}
		if err := lockScope(ctx, tx, v.OrgID, d.Scope); err != nil {
			return err
		}
		d.Type, d.Untrusted, d.ConfirmedBy = Selector, true, ""
		is, found, deleted, err := selectorOf(ctx, tx, v, d)
		if err != nil || deleted || hit && !found {
			return err
		}
		d.Confidence = newSelector
		if found {
			d.Confidence = is.Confidence
		}
		switch {
		case missed:
			d.Confidence /= 2
		case hit:
			d.Confidence += (1 - d.Confidence) * hitSelector
		case found: // it was not used, since it missed too often
			d.Confidence = max(d.Confidence, newSelector/2)
		}
		ends := time.Now().Add(selectorLife)
		d.ExpiresAt = &ends
		if found && (hit || d.Value == nil || is.ConfirmedBy != "") {
			if is.ConfirmedBy != "" {
				d.ExpiresAt = is.ExpiresAt
			}
			err := tx.WeighMemory(ctx, db.WeighMemoryParams{OrgID: v.OrgID, ID: is.ID, Confidence: d.Confidence, ExpiresAt: d.ExpiresAt})
			if err != nil {
				return fmt.Errorf("count the use of memory %s: %w", is.ID, err)
			}
			return nil
		}
		if d.Value == nil || found && is.SourceStep == d.Source.StepID {
			return nil
		}
		if _, err := m.put(ctx, tx, v.OrgID, d); err != nil {
			return err
		}
		err = tx.DropOldestSelectors(ctx, db.DropOldestSelectorsParams{
			OrgID: v.OrgID, ScopeKind: string(d.Scope.Kind), ScopeID: d.Scope.ID, OnlyFor: d.OnlyFor, Most: maxSelectors,
		})
		if err != nil {
			return fmt.Errorf("make room for the selectors of %s: %w", d.Scope, err)
		}
		return nil
	})
}

// selectorOf returns the selector that a run is given for a key: of the user's own and the one for
// all the one that is preferred. deleted reports that one with the draft's value was deleted.
func selectorOf(ctx context.Context, tx *event.Tx, v visibility.Viewer, d Draft) (is db.Memory, found, deleted bool, err error) {
	value, err := json.Marshal(d.Value)
	if err != nil {
		return is, false, false, fmt.Errorf("encode the selector %s: %w", d.Key, err)
	}
	for _, onlyFor := range []string{d.OnlyFor, ""} {
		one, err := tx.LockMemory(ctx, keyOf(v.OrgID, d, onlyFor))
		switch {
		case store.IsNotFound(err):
		case err != nil:
			return is, false, false, fmt.Errorf("find memory %s: %w", d.Key, err)
		case one.DeletedAt != nil:
			deleted = deleted || d.Value != nil && sameJSON(one.Value, value)
		case !found || preferred(one, is):
			is, found = one, true
		}
	}
	return is, found, deleted && !found, nil
}
