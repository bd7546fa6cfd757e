package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// OnConflict says what an import does with an entry that exists with another value.
type OnConflict int

// What it does.
const (
	Fail OnConflict = iota
	Keep
	Replace
)

// Outcomes of an imported entry.
const (
	Created   = "created"
	Replaced  = "replaced"
	Unchanged = "unchanged"
	Kept      = "kept"
	Conflict  = "conflict"
	Refused   = "refused"
)

// Imported is what was, or would be, done with one entry.
type Imported struct {
	Type         Type
	Key, Outcome string
	// Reason is why it was refused.
	Reason string
}

// errNotStored ends the transaction of an import that is not to be stored.
var errNotStored = errors.New("not to be stored")

// Import stores entries in one scope, all of them or none: none with dryRun, and none if one is
// refused or is a conflict. stored reports which.
func (m *Memories) Import(
	ctx context.Context, v visibility.Viewer, role string, into scope.Scope, drafts []Draft, on OnConflict, dryRun bool, by event.Actor,
) (results []Imported, stored bool, err error) {
	into, err = scope.Resolve(ctx, m.cfg.Store.Queries, v, into)
	if err != nil {
		return nil, false, err
	}
	err = m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		results = nil
		if err := scope.Check(ctx, tx.Queries, v, into, true); err != nil {
			return err
		}
		if err := lockScope(ctx, tx, v.OrgID, into); err != nil {
			return err
		}
		bad, changed := false, 0
		for _, d := range drafts {
			d.Scope, d.OnlyFor = into, ""
			d.Source = Source{Kind: ByImport, User: v.Name}
			if d.ConfirmedBy = v.Name; d.Untrusted {
				d.ConfirmedBy = ""
			}
			if err := mayInstruct(role, string(into.Kind), string(d.Type), d.Key); err != nil {
				return err
			}
			one, err := m.importOne(ctx, tx, v.OrgID, d, on)
			if err != nil {
				return err
			}
			results = append(results, one)
			bad = bad || one.Outcome == Conflict || one.Outcome == Refused
			if one.Outcome == Created || one.Outcome == Replaced {
				changed++
			}
		}
		if dryRun || bad {
			return errNotStored
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "memory.imported", ObjectKind: "memory", ObjectID: into.ID,
			After: map[string]any{"scope": into.String(), "entries": float64(len(drafts)), "changed": float64(changed)},
		})
	})
	if errors.Is(err, errNotStored) {
		return results, false, nil
	}
	return results, err == nil, err
}

func (m *Memories) importOne(ctx context.Context, tx *event.Tx, orgID string, d Draft, on OnConflict) (Imported, error) {
	out := Imported{Type: d.Type, Key: d.Key}
	value, err := m.check(orgID, &d)
	if err != nil {
		if e := fault.As(err); e != nil && e.Kind != fault.Internal {
			out.Outcome, out.Reason = Refused, e.Explanation()
			return out, nil
		}
		return out, err
	}
	is, err := tx.LockMemory(ctx, keyOf(orgID, d, ""))
	switch {
	case store.IsNotFound(err), err == nil && is.DeletedAt != nil:
		out.Outcome = Created
	case err != nil:
		return out, fmt.Errorf("find memory %s: %w", d.Key, err)
	case sameJSON(is.Value, value):
		out.Outcome = Unchanged
		return out, nil
	case on == Keep:
		out.Outcome = Kept
		return out, nil
	case on == Replace:
		out.Outcome = Replaced
	default:
		out.Outcome = Conflict
		return out, nil
	}
	if _, err = m.put(ctx, tx, orgID, d); err != nil {
		if e := fault.As(err); e != nil && e.Kind == fault.Exhausted {
			out.Outcome, out.Reason = Refused, e.Explanation()
			return out, nil
		}
	}
	return out, err
}

// sameJSON reports whether two values are the same, however they are written.
func sameJSON(a, b json.RawMessage) bool {
	plain := func(data json.RawMessage) []byte {
		var v any
		if json.Unmarshal(data, &v) != nil {
			return data
		}
		out, err := json.Marshal(v)
		if err != nil {
			return data
		}
		return out
	}
	return bytes.Equal(plain(a), plain(b))
}
