package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// ExecRequest selects what is to be undone of a person's command.
type ExecRequest struct {
	Exec       db.NodeExec
	OnConflict nodev1.OnConflict
	Preview    bool
	// ExpectState is that of a preview; 0 for any.
	ExpectState int64
	By          event.Actor
}

// UndoExec undoes what a person's command or terminal changed in a workspace, or
// describes what that would do. It is possible from its end on, as long as for a task's
// changes.
func (w *Workspaces) UndoExec(ctx context.Context, req ExecRequest) (UndoResult, error) {
	e := req.Exec
	refuse := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Precondition, format, args...).WithObject(e.ID)
	}
	switch {
	case e.JailID == "":
		return UndoResult{}, refuse("%s ran on the machine itself, of which no changes are kept", e.ID).WithFix("change it back by hand")
	case e.FinishedAt == nil:
		return UndoResult{}, refuse("%s has not ended", e.ID).WithFix("wait for it, or end it with: deckhand node kill %s", e.ID)
	}
	if e.UndoneAt != nil {
		return UndoResult{}, refuse("%s was undone at %s, as %s", e.ID, e.UndoneAt.UTC().Format(time.RFC3339), *e.UndoID).
			WithFix("nothing is left to do")
	}
	rows, err := w.cfg.Store.PendingExecUndos(ctx, db.PendingExecUndosParams{OrgID: e.OrgID, ExecID: &e.ID})
	if err != nil {
		return UndoResult{}, fmt.Errorf("find the undos of %s: %w", e.ID, err)
	}
	if err := w.carryOn(ctx, rows); err != nil {
		return UndoResult{}, err
	}
	if e.Files == 0 {
		return UndoResult{}, fault.New(fault.NotFound, "%s changed no files in its workspace", e.ID).WithObject(e.ID).
			WithFix("see which did: deckhand node execs")
	}
	span, err := w.span(ctx, e.OrgID, e.FinishedAt)
	if err != nil {
		return UndoResult{}, err
	}
	out := UndoResult{Span: span}
	if !out.Span.Open() && !req.Preview {
		return out, refuse("the changes of %s could be undone until %s", e.ID, out.Span.Until.UTC().Format(time.RFC3339)).
			WithFix("change the files back by hand")
	}
	node, err := w.cfg.Node(e.NodeID)
	if err != nil {
		return out, err
	}
	if req.Preview {
		out.Node, err = node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: e.JailID, Range: &nodev1.ChangeRange{By: []string{e.ID}}, OnConflict: req.OnConflict, Preview: true,
		})
		return out, fault.FromGRPC(err)
	}
	var row db.Undo
	err = w.cfg.Store.Tx(ctx, func(q *db.Queries) (err error) {
		row, err = q.CreateExecUndo(ctx, db.CreateExecUndoParams{
			ID: ident.New("undo"), OrgID: e.OrgID, ExecID: &e.ID, NodeID: e.NodeID, JailID: e.JailID, ChangeIds: []string{e.ID},
			OnConflict: conflictWords[req.OnConflict], ExpectState: req.ExpectState, AskedBy: req.By.ID, Address: req.By.Address,
			UserAgent: req.By.UserAgent,
		})
		return err
	})
	if err != nil {
		return out, fmt.Errorf("store an undo of %s: %w", e.ID, err)
	}
	// The caller may disconnect: a started undo is completed.
	out.Node, err = w.carryOut(context.WithoutCancel(ctx), node, row)
	if err == nil && out.Node.GetApplied() {
		out.ID = row.ID
	}
	return out, err
}

// execUndone stores that a person's command was undone.
func execUndone(ctx context.Context, tx *event.Tx, row db.Undo, res *nodev1.UndoChangesResponse) error {
	if err := tx.MarkExecUndone(ctx, db.MarkExecUndoneParams{OrgID: row.OrgID, ID: *row.ExecID, UndoID: &row.ID}); err != nil {
		return fmt.Errorf("mark the command of undo %s: %w", row.ID, err)
	}
	return audit.Append(tx, undone(row, res, "exec", *row.ExecID))
}
