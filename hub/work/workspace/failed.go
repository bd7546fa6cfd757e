package workspace

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// AfterFailure brings the workspace of a run that failed back to the newest checkpoint of its
// task with a name, or to what it was before the task, for persona.Start. The caller holds the
// task's lease, so that no other task uses the workspace. It does nothing if nothing has
// changed since, and returns an error of kind Precondition that says why files stay as they
// are: there is no such checkpoint, or others have changed them since.
func (w *Workspaces) AfterFailure(ctx context.Context, t db.Task, name string) error {
	r, err := w.beforeFailure(ctx, t, name)
	if err != nil || r == nil {
		return err
	}
	r.OrgID, r.LineageID = t.OrgID, t.LineageID
	node, err := w.cfg.Node(r.NodeID)
	if err != nil {
		return err
	}
	row, err := w.restoreOf(ctx, t, r)
	if err != nil {
		return err
	}
	res, err := w.giveBack(ctx, r, node, row.ID, func() error { return r.Refused(*t.NodeID) })
	if err == nil {
		return w.finish(context.WithoutCancel(ctx), row, res)
	}
	if ctx.Err() != nil || fault.Is(fault.FromGRPC(err), fault.Unavailable) {
		return err // the node may have done it
	}
	return firstOf(w.finish(ctx, row, nil), err)
}

// beforeFailure finds the workspace to which a run that failed goes back; nil if nothing has
// changed since.
func (w *Workspaces) beforeFailure(ctx context.Context, t db.Task, name string) (*Restore, error) {
	named, err := task.NamedCheckpoint(ctx, w.cfg.Store.Queries, t.OrgID, t.ID, name)
	switch {
	case err == nil:
		return w.findPoint(ctx, t, named)
	case !store.IsNotFound(err):
		return nil, fmt.Errorf("find checkpoint %q of %s: %w", name, t.ID, err)
	case name == persona.BeforeRisk:
		return nil, fault.New(fault.Precondition, "the run made no risky call").WithObject(t.ID)
	case name != persona.Start:
		return nil, fault.New(fault.Precondition, "the run named no checkpoint %q", name).WithObject(t.ID)
	}
	before, err := w.cfg.Store.WorkspaceBefore(ctx, db.WorkspaceBeforeParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		return nil, nil //nolint:nilnil // documented: no step has changed anything
	}
	if err != nil {
		return nil, fmt.Errorf("find the workspace that %s began with: %w", t.ID, err)
	}
	return &Restore{NodeID: before.NodeID, JailID: before.JailID, Record: before.Record, State: before.State}, nil
}

// restoreOf stores that a task's workspace goes back, unless a hub that died meanwhile has.
func (w *Workspaces) restoreOf(ctx context.Context, t db.Task, r *Restore) (row db.Undo, err error) {
	err = w.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if _, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
			return fmt.Errorf("lock task %s: %w", t.ID, err)
		}
		pending := db.PendingRestoreParams{OrgID: t.OrgID, TaskID: &t.ID}
		if row, err = tx.PendingRestore(ctx, pending); !store.IsNotFound(err) {
			return err
		}
		if err := tx.CreateRestore(ctx, db.CreateRestoreParams{
			ID: ident.New("undo"), OrgID: t.OrgID, TaskID: &t.ID, NodeID: r.NodeID, JailID: r.JailID,
			OnConflict: conflictWords[nodev1.OnConflict_ON_CONFLICT_REFUSE], ToState: &r.State, ToRecord: r.Record, AskedBy: event.Hub.ID,
		}); err != nil {
			return err
		}
		row, err = tx.PendingRestore(ctx, pending)
		return err
	})
	if err != nil {
		err = fmt.Errorf("store that the workspace of %s goes back: %w", t.ID, err)
	}
	return row, err
}
