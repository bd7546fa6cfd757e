package memory

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// own reports that an agent writes in a scope for its user only.
func own(k scope.Kind) bool { return k == scope.Agent || k == scope.Workspace }

// allow refuses a scope that a run for v may not write in, and returns the id of the only user
// that an entry there is for. In the scope of its agent or workspace it writes for its user,
// who need not own the agent.
func allow(ctx context.Context, q *db.Queries, v visibility.Viewer, s scope.Scope) (onlyFor string, err error) {
	if !own(s.Kind) {
		return "", scope.Check(ctx, q, v, s, true)
	}
	if err := scope.Check(ctx, q, v, s, false); err != nil {
		return "", err
	}
	return userID(ctx, q, v)
}

// Remember stores what an agent wrote in a run for v. Nobody answers for it yet. It does not
// replace what a person wrote or confirmed, and a call that is made again stores nothing more.
func (m *Memories) Remember(ctx context.Context, v visibility.Viewer, d Draft) (db.Memory, error) {
	var out db.Memory
	err := m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		var err error
		if d.OnlyFor, err = allow(ctx, tx.Queries, v, d.Scope); err != nil {
			return err
		}
		if err := lockScope(ctx, tx, v.OrgID, d.Scope); err != nil {
			return err
		}
		is, err := tx.LockMemory(ctx, keyOf(v.OrgID, d, d.OnlyFor))
		switch {
		case store.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("find memory %s: %w", d.Key, err)
		case is.SourceStep == d.Source.StepID && d.Source.StepID != "":
			out = is
			return nil
		case is.ConfirmedBy != "" && is.DeletedAt == nil:
			return fault.New(fault.Denied, "%s wrote or confirmed the entry %q, and only people change it", is.ConfirmedBy, is.Key).
				WithCode(fault.PermissionDenied).WithFix("use another key, and say in your summary what is wrong with it").WithObject(is.ID)
		}
		d.ConfirmedBy = ""
		out, err = m.put(ctx, tx, v.OrgID, d)
		return err
	})
	return out, err
}

// Forget deletes an entry for a run for v. It does not delete what a person wrote or confirmed.
func (m *Memories) Forget(ctx context.Context, v visibility.Viewer, d Draft) (gone bool, err error) {
	err = m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		onlyFor, err := allow(ctx, tx.Queries, v, d.Scope)
		if err != nil {
			return err
		}
		if err := lockScope(ctx, tx, v.OrgID, d.Scope); err != nil {
			return err
		}
		is, err := tx.LockMemory(ctx, keyOf(v.OrgID, d, onlyFor))
		if store.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("find memory %s: %w", d.Key, err)
		}
		if is.ConfirmedBy != "" && is.DeletedAt == nil {
			return fault.New(fault.Denied, "%s wrote or confirmed the entry %q, and only people delete it", is.ConfirmedBy, is.Key).
				WithCode(fault.PermissionDenied).WithFix("say in your summary that it is out of date").WithObject(is.ID)
		}
		n, err := tx.DeleteMemory(ctx, db.DeleteMemoryParams{OrgID: is.OrgID, ID: is.ID})
		gone = n > 0
		return err
	})
	return gone, err
}

// SourceText says for a run who wrote an entry.
func SourceText(is db.Memory) string { return sourceText(is.Source, is.SourceUser, is.ConfirmedBy) }

func sourceText(kind, user, confirmedBy string) string {
	switch {
	case kind == ByAgent && confirmedBy != "":
		return "an agent, confirmed by " + confirmedBy
	case kind == ByAgent:
		return "an agent"
	}
	return user
}
