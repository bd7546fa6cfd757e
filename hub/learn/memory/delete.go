package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// each calls do with the locked rows of entries that v may change, in one transaction, and
// returns their ids. Nothing is done if one of them is not v's to change.
func (m *Memories) each(
	ctx context.Context, v visibility.Viewer, refs []string, action string, by event.Actor, do func(tx *event.Tx, is db.Memory) error,
) ([]string, error) {
	var ids []string
	for _, ref := range refs {
		id, err := m.Find(ctx, v, ref)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	rows, err := m.Entries(ctx, v, ids)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if !row.Writable {
			return nil, fault.New(fault.Denied, "you read the entry %q of %s %s and do not change it", row.Memory.Key, row.Memory.ScopeKind, row.ScopeName).
				WithCode(fault.PermissionDenied).WithFix("ask an owner or an administrator").WithObject(row.Memory.ID)
		}
	}
	var scopes []scope.Scope
	for _, row := range rows {
		scopes = append(scopes, scope.Scope{Kind: scope.Kind(row.Memory.ScopeKind), ID: row.Memory.ScopeID})
	}
	slices.SortFunc(scopes, func(a, b scope.Scope) int { return strings.Compare(a.String(), b.String()) })
	err = m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		for _, s := range slices.Compact(scopes) {
			if err := lockScope(ctx, tx, v.OrgID, s); err != nil {
				return err
			}
		}
		for _, id := range ids {
			is, err := tx.LockMemoryByID(ctx, db.LockMemoryByIDParams{OrgID: v.OrgID, ID: id})
			if store.IsNotFound(err) {
				return missing(id)
			}
			if err != nil {
				return fmt.Errorf("lock memory %s: %w", id, err)
			}
			if err := do(tx, is); err != nil {
				return err
			}
			if err := audit.Append(tx, audit.Entry{
				OrgID: v.OrgID, By: by, Action: action, ObjectKind: "memory", ObjectID: id,
				After: map[string]any{"scope": is.ScopeKind + " " + is.ScopeID, "type": is.Type, "key": shown(scope.Kind(is.ScopeKind), is.OnlyFor, is.Key)},
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// Delete deletes entries, and returns their ids.
func (m *Memories) Delete(ctx context.Context, v visibility.Viewer, refs []string, by event.Actor) ([]string, error) {
	return m.each(ctx, v, refs, "memory.deleted", by, func(tx *event.Tx, is db.Memory) error {
		if _, err := tx.DeleteMemory(ctx, db.DeleteMemoryParams{OrgID: is.OrgID, ID: is.ID}); err != nil {
			return fmt.Errorf("delete memory %s: %w", is.ID, err)
		}
		return nil
	})
}

// Restore restores deleted entries. With a version, it stores the value of that version of one
// entry again.
func (m *Memories) Restore(ctx context.Context, v visibility.Viewer, role string, refs []string, version int32, by event.Actor) ([]Entry, error) {
	if version > 0 && len(refs) != 1 {
		return nil, fault.New(fault.Invalid, "version goes with one entry, and %d are named", len(refs)).WithFix("restore them one after the other")
	}
	ids, err := m.each(ctx, v, refs, "memory.restored", by, func(tx *event.Tx, is db.Memory) error {
		if is.ExpiresAt != nil && !is.ExpiresAt.After(time.Now()) && version == 0 {
			return fault.New(fault.Precondition, "the entry %q is over since %s", is.Key, is.ExpiresAt.UTC().Format(time.RFC3339)).
				WithFix("set it again").WithObject(is.ID)
		}
		if version == 0 {
			if _, err := tx.UndeleteMemory(ctx, db.UndeleteMemoryParams{OrgID: is.OrgID, ID: is.ID}); err != nil {
				return fmt.Errorf("restore memory %s: %w", is.ID, err)
			}
			return nil
		}
		if err := mayInstruct(role, is.ScopeKind, is.Type, is.Key); err != nil {
			return err
		}
		was, err := tx.GetMemoryVersion(ctx, db.GetMemoryVersionParams{OrgID: is.OrgID, MemoryID: is.ID, Version: version})
		if store.IsNotFound(err) {
			return fault.New(fault.NotFound, "the entry %q has no version %d", is.Key, version).WithFix("list them with: deckhand memory history %s", is.ID).WithObject(is.ID)
		}
		if err != nil {
			return fmt.Errorf("read version %d of memory %s: %w", version, is.ID, err)
		}
		var value any
		if err := json.Unmarshal(was.Value, &value); err != nil {
			return fmt.Errorf("read version %d of memory %s: %w", version, is.ID, err)
		}
		row, err := tx.UpdateMemory(ctx, db.UpdateMemoryParams{
			OrgID: is.OrgID, ID: is.ID, Value: was.Value, Body: body(is.Key, value), Source: ByPerson, SourceUser: v.Name,
			ConfirmedBy: v.Name, Confidence: was.Confidence,
		})
		if err != nil {
			return fmt.Errorf("restore memory %s: %w", is.ID, err)
		}
		return keepVersion(ctx, tx, row)
	})
	if err != nil {
		return nil, err
	}
	return m.Entries(ctx, v, ids)
}

// Correct stores a person's text as the next version of exactly one entry, which stays for whom
// it is.
func Correct(ctx context.Context, m *Memories, v visibility.Viewer, role, ref, text string, by event.Actor) error {
	_, err := m.each(ctx, v, []string{ref}, "memory.corrected", by, func(tx *event.Tx, is db.Memory) error {
		if is.DeletedAt != nil {
			return fault.New(fault.NotFound, "memory %s is deleted", is.ID).WithFix("restore it first: deckhand memory restore %s", is.ID).WithObject(is.ID)
		}
		if err := mayInstruct(role, is.ScopeKind, is.Type, is.Key); err != nil {
			return err
		}
		var was any
		if err := json.Unmarshal(is.Value, &was); err != nil {
			return fmt.Errorf("read memory %s: %w", is.ID, err)
		}
		if _, isText := was.(string); !isText {
			return fault.New(fault.Invalid, "the value of %q is no text, which a correction would make it", is.Key).WithCode(fault.InvalidParameters).
				WithFix("write the whole value as JSON: deckhand memory set --help").WithObject(is.ID)
		}
		_, err := m.put(ctx, tx, v.OrgID, Draft{
			Scope: scope.Scope{Kind: scope.Kind(is.ScopeKind), ID: is.ScopeID}, OnlyFor: is.OnlyFor, Type: Type(is.Type), Key: is.Key, Value: text, Confidence: 1,
			ExpiresAt: is.ExpiresAt, ExpectedVersion: is.Version, Source: Source{Kind: ByPerson, User: v.Name}, ConfirmedBy: v.Name,
		})
		return err
	})
	return err
}

// Confirm has v, who has a role, answer for entries that agents wrote. versions are those that v
// read, in the order of refs: nothing is confirmed if one of them has changed since, which a run
// may do at any time. With share, they are for all who read their scope, which v has to write in.
func (m *Memories) Confirm(
	ctx context.Context, v visibility.Viewer, role string, refs []string, versions []int32, share bool, by event.Actor,
) ([]Entry, error) {
	if len(versions) != len(refs) {
		return nil, fault.New(fault.Invalid, "versions has %d numbers for %d entries", len(versions), len(refs)).
			WithFix("give for each entry the version that you read")
	}
	read := map[string]int32{}
	for i, ref := range refs {
		id, err := m.Find(ctx, v, ref)
		if err != nil {
			return nil, err
		}
		read[id] = versions[i]
	}
	ids, err := m.each(ctx, v, refs, "memory.confirmed", by, func(tx *event.Tx, is db.Memory) error {
		if is.Version != read[is.ID] || is.DeletedAt != nil {
			return fault.New(fault.Aborted, "the entry %q has version %d, and you read %d: it was changed", is.Key, is.Version, read[is.ID]).
				WithFix("read it again and confirm what it says now: deckhand memory get %s", is.ID).WithObject(is.ID)
		}
		if err := mayInstruct(role, is.ScopeKind, is.Type, is.Key); err != nil {
			return err
		}
		if share && is.OnlyFor != "" {
			may, err := tx.ScopeAccess(ctx, db.ScopeAccessParams{OrgID: v.OrgID, Kind: is.ScopeKind, ID: is.ScopeID, Viewer: v.Name, Administrator: v.All})
			if err != nil {
				return fmt.Errorf("look who writes in %s %s: %w", is.ScopeKind, is.ScopeID, err)
			}
			if !may.Writable {
				return fault.New(fault.Denied, "only its owners and administrators share what is the %s's", is.ScopeKind).
					WithCode(fault.PermissionDenied).WithFix("confirm it for your own runs, or ask one of them").WithObject(is.ID)
			}
			_, err = tx.LockMemory(ctx, db.LockMemoryParams{OrgID: v.OrgID, ScopeKind: is.ScopeKind, ScopeID: is.ScopeID, Type: is.Type, Key: is.Key})
			if err == nil {
				return fault.New(fault.Exists, "there is an entry %q for all already", is.Key).WithFix("change that one, or delete it first").WithObject(is.ID)
			}
			if !store.IsNotFound(err) {
				return fmt.Errorf("find memory %s: %w", is.Key, err)
			}
		}
		if err := tx.ConfirmMemory(ctx, db.ConfirmMemoryParams{OrgID: is.OrgID, ID: is.ID, ConfirmedBy: v.Name, Share: share}); err != nil {
			return fmt.Errorf("confirm memory %s: %w", is.ID, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m.Entries(ctx, v, ids)
}

// Purged is what Purge deleted.
type Purged struct{ Memories, Versions, Steps, Verdicts int64 }

// Purge deletes everything that only a user reads, with its versions, what the records of
// the user's ended tasks have of it, and what the user said of entries that are others' too. It is refused while a task that knows some of it goes on,
// which would write it down again.
func (m *Memories) Purge(ctx context.Context, orgID, userID, userName string, by event.Actor) (Purged, error) {
	var out Purged
	err := m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		// The records first: which tasks were told an entry goes with it.
		var err error
		if out.Steps, err = purgeRecords(ctx, tx, orgID, userID, userName); err != nil {
			return err
		}
		row, err := tx.PurgeMemories(ctx, db.PurgeMemoriesParams{OrgID: orgID, UserID: userID})
		if err != nil {
			return fmt.Errorf("purge the memory of %s: %w", userName, err)
		}
		out.Memories, out.Versions = row.Memories, row.Versions
		shared, err := tx.PurgeMemoryVerdicts(ctx, db.PurgeMemoryVerdictsParams{OrgID: orgID, UserName: userName})
		if err != nil {
			return fmt.Errorf("purge what %s said of memories: %w", userName, err)
		}
		slices.Sort(shared)
		for _, id := range shared {
			if err := tx.CountMemoryVerdicts(ctx, db.CountMemoryVerdictsParams{OrgID: orgID, ID: id}); err != nil {
				return fmt.Errorf("count the verdicts on memory %s: %w", id, err)
			}
		}
		out.Verdicts = int64(len(shared))
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "memory.purged", ObjectKind: "user", ObjectID: userID,
			After: map[string]any{"memories": float64(out.Memories), "versions": float64(out.Versions), "steps": float64(out.Steps), "verdicts": float64(out.Verdicts)},
		})
	})
	return out, err
}

// pruneBatch is how many entries are deleted at once.
const pruneBatch = 500

// Prune deletes what was deleted or over for DeletedFor.
func (m *Memories) Prune(ctx context.Context) error {
	before := time.Now().Add(-DeletedFor)
	for {
		n, err := m.cfg.Store.PruneMemories(ctx, db.PruneMemoriesParams{Before: &before, MaxRows: pruneBatch})
		if err != nil {
			return fmt.Errorf("delete old memories: %w", err)
		}
		if n < pruneBatch {
			return nil
		}
	}
}
