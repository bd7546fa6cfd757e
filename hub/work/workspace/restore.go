package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/shortlist"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// InputsOf is the id that what is put into a workspace for a task is recorded
// under.
func InputsOf(taskID string) string { return "input_" + taskID }

// StateAfter returns the state in which a change left its workspace, and the record that
// holds it; nil if it is not known.
func StateAfter(c *nodev1.WorkspaceChange) (record string, state *int64) {
	if c == nil || c.GetError() != "" || c.GetRecord() == "" {
		return "", nil
	}
	return c.GetRecord(), &c.After
}

// Restore is the workspace of a checkpoint, with which a task that is resumed from there
// begins.
type Restore struct {
	OrgID, LineageID string
	NodeID, JailID   string
	// Record and State name it on the node.
	Record string
	State  int64
	// Overwrite reports that later changes of others may be lost.
	Overwrite bool

	// Seen is what giving it back would change now.
	Seen *nodev1.UndoChangesResponse
	// Others are the ids of the changes among them that are not of the task's
	// lineage.
	Others []string
}

// At returns the workspace of a task's checkpoint, with what restoring it would change
// now; nil if no task of the lineage has changed anything since, so that there is nothing
// to restore.
func (w *Workspaces) At(ctx context.Context, t db.Task, iteration int32, overwrite bool) (*Restore, error) {
	r, err := w.find(ctx, t, iteration)
	if r == nil || err != nil {
		return nil, err
	}
	r.OrgID, r.LineageID, r.Overwrite = t.OrgID, t.LineageID, overwrite
	node, err := w.cfg.Node(r.NodeID)
	if err != nil {
		return nil, fmt.Errorf("look at the workspace of checkpoint %d: %w", iteration, err)
	}
	return r, w.see(ctx, r, node, "")
}

// find searches for the checkpoint's workspace from the task back to those that it was
// resumed from. A workspace that no step had changed by then is the one that the first
// step found.
func (w *Workspaces) find(ctx context.Context, t db.Task, iteration int32) (*Restore, error) {
	var first *Restore
	for {
		at, err := w.cfg.Store.WorkspaceAt(ctx, db.WorkspaceAtParams{OrgID: t.OrgID, TaskID: t.ID, Turn: iteration})
		if err == nil {
			return &Restore{NodeID: at.NodeID, JailID: at.JailID, Record: at.Record, State: at.State}, nil
		}
		if !store.IsNotFound(err) {
			return nil, fmt.Errorf("find the workspace of checkpoint %d of %s: %w", iteration, t.ID, err)
		}
		before, err := w.cfg.Store.WorkspaceBefore(ctx, db.WorkspaceBeforeParams{OrgID: t.OrgID, TaskID: t.ID, Turn: iteration})
		switch {
		case err == nil:
			first = &Restore{NodeID: before.NodeID, JailID: before.JailID, Record: before.Record, State: before.State}
		case !store.IsNotFound(err):
			return nil, fmt.Errorf("find the workspace of checkpoint %d of %s: %w", iteration, t.ID, err)
		}
		if t.ResumedAt == 0 || t.OriginID == nil {
			return first, nil
		}
		row, err := w.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: t.OrgID, ID: *t.OriginID})
		if err != nil {
			return nil, fmt.Errorf("load task %s, from which %s goes on: %w", *t.OriginID, t.ID, err)
		}
		t, iteration = row.Task, min(iteration, t.ResumedAt)
	}
}

// findPoint searches for the workspace of a named checkpoint: of the end of its iteration, or
// of the point before its call. A call that changed something found the workspace exactly so;
// before any other it was as the call before left it.
func (w *Workspaces) findPoint(ctx context.Context, t db.Task, named db.CheckpointNamedRow) (*Restore, error) {
	if named.Step == 0 {
		return w.find(ctx, t, named.Iteration)
	}
	found, err := w.cfg.Store.WorkspaceFoundByStep(ctx, db.WorkspaceFoundByStepParams{OrgID: t.OrgID, TaskID: t.ID, Number: named.Step})
	if err == nil {
		return &Restore{NodeID: found.NodeID, JailID: found.JailID, Record: found.Record, State: found.State}, nil
	}
	if !store.IsNotFound(err) {
		return nil, fmt.Errorf("find the workspace of %s before step %d: %w", t.ID, named.Step, err)
	}
	at, err := w.After(ctx, t, named.Step-1)
	if err != nil || at == nil {
		return nil, err
	}
	return &Restore{NodeID: at.NodeID, JailID: at.JailID, Record: at.Record, State: at.State}, nil
}

// Place is a state of a workspace, on the node that keeps it.
type Place struct {
	NodeID, JailID string
	Record         string
	State          int64
}

// After returns the state in which a step left the workspace of its task; nil if no step of
// the task recorded one. A step before the first that changed something left it as that
// one found it.
func (w *Workspaces) After(ctx context.Context, t db.Task, number int32) (*Place, error) {
	at, err := w.cfg.Store.WorkspaceAfterStep(ctx, db.WorkspaceAfterStepParams{OrgID: t.OrgID, TaskID: t.ID, Number: number})
	if err == nil {
		return &Place{NodeID: at.NodeID, JailID: at.JailID, Record: at.Record, State: at.State}, nil
	}
	if !store.IsNotFound(err) {
		return nil, fmt.Errorf("find the workspace of %s after step %d: %w", t.ID, number, err)
	}
	before, err := w.cfg.Store.WorkspaceBeforeStep(ctx, db.WorkspaceBeforeStepParams{OrgID: t.OrgID, TaskID: t.ID, Number: number})
	switch {
	case err == nil:
		return &Place{NodeID: before.NodeID, JailID: before.JailID, Record: before.Record, State: before.State}, nil
	case store.IsNotFound(err):
		return nil, nil //nolint:nilnil // documented: nothing was recorded
	}
	return nil, fmt.Errorf("find the workspace of %s after step %d: %w", t.ID, number, err)
}

// see asks the node what giving a workspace back would change now, or has changed, if that
// was done under the operation's id.
func (w *Workspaces) see(ctx context.Context, r *Restore, node machine.Link, operationID string) error {
	seen, err := node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
		JailId: r.JailID, OperationId: operationID, Range: &nodev1.ChangeRange{From: r.State}, ExpectRecord: r.Record, Preview: true,
	})
	if err != nil {
		return gone(r.JailID, fault.FromGRPC(err))
	}
	r.Seen, r.Others = seen, nil
	if len(seen.GetBy()) == 0 {
		return nil
	}
	ours, err := w.cfg.Store.ChangesOfLineage(ctx, db.ChangesOfLineageParams{OrgID: r.OrgID, LineageID: r.LineageID, Ids: seen.GetBy()})
	if err != nil {
		return fmt.Errorf("find whose changes those of %s are: %w", r.JailID, err)
	}
	for _, id := range seen.GetBy() {
		if !slices.Contains(ours, id) {
			r.Others = append(r.Others, id)
		}
	}
	return nil
}

// gone returns the error for a checkpoint whose workspace is not available any more.
func gone(jailID string, err error) error {
	if e := fault.As(err); e != nil && e.Kind == fault.NotFound {
		return fault.New(fault.Precondition, "the workspace of that checkpoint is not kept any more: %s", e.Message).
			WithCode(fault.ResumeFailed).WithObject(jailID).
			WithFix("go on in the workspace as it is now with --workspace keep, or from a later checkpoint").WithCause(err)
	}
	return fmt.Errorf("look at the workspace of %s: %w", jailID, err)
}

// Refused returns why a workspace cannot be restored for a task that runs on a node, ""
// for the node that has the workspace; nil if it can.
func (r *Restore) Refused(nodeID string) error {
	refuse := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Precondition, format, args...).WithCode(fault.ResumeFailed).WithObject(r.JailID)
	}
	if nodeID != "" && nodeID != r.NodeID {
		return refuse("the checkpoint's workspace %s is on node %s, and the task would run on %s", r.JailID, r.NodeID, nodeID).
			WithFix("have it run on that node, or go on in the workspace of its own node with --workspace keep")
	}
	if len(r.Others) > 0 && !r.Overwrite {
		return refuse("others have changed the workspace since that checkpoint, and their work would be lost: %s", some(r.Others)).
			WithFix("look with --preview, then lose it with --workspace overwrite, or go on in the workspace as it is with --workspace keep")
	}
	if c := r.Seen.GetConflicts(); len(c) > 0 {
		var said []string
		for _, one := range c {
			said = append(said, one.GetMessage())
		}
		return refuse("the workspace of that checkpoint cannot be restored whole: %s", some(said)).
			WithFix("go on in the workspace as it is with --workspace keep")
	}
	return nil
}

// some returns a few of many texts in one.
func some(texts []string) string { return shortlist.Of(texts, 5, len(texts)) }

// Store records that a new task begins with the workspace, in the transaction that stores
// the task.
func (r *Restore) Store(ctx context.Context, tx *event.Tx, t db.Task, by event.Actor) error {
	if t.JailID != r.JailID {
		return fault.New(fault.Precondition, "the checkpoint is of workspace %s, and task %s would work in %s", r.JailID, t.ID, t.JailID).
			WithCode(fault.ResumeFailed).WithFix("go on in the workspace as it is with --workspace keep").WithObject(t.ID)
	}
	how := conflictWords[nodev1.OnConflict_ON_CONFLICT_REFUSE]
	if r.Overwrite {
		how = conflictWords[nodev1.OnConflict_ON_CONFLICT_OVERWRITE]
	}
	if err := tx.CreateRestore(ctx, db.CreateRestoreParams{
		ID: ident.New("undo"), OrgID: t.OrgID, TaskID: &t.ID, NodeID: r.NodeID, JailID: r.JailID, OnConflict: how,
		ToState: &r.State, ToRecord: r.Record, AskedBy: by.ID, Address: by.Address, UserAgent: by.UserAgent,
	}); err != nil {
		return fmt.Errorf("store the workspace that %s begins with: %w", t.ID, err)
	}
	return nil
}

// restoreTries is how often a workspace that changes under the look is looked
// at again.
const restoreTries = 5

// Restore restores the workspace that a task begins with, once. Admission ensures that no
// other task uses it. If others changed it since the task was submitted, it is refused,
// as it would have been at submission.
func (w *Workspaces) Restore(ctx context.Context, t db.Task, node machine.Link) error {
	row, err := w.cfg.Store.PendingRestore(ctx, db.PendingRestoreParams{OrgID: t.OrgID, TaskID: &t.ID})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the workspace that %s begins with: %w", t.ID, err)
	}
	r := &Restore{
		OrgID: t.OrgID, LineageID: t.LineageID, NodeID: row.NodeID, JailID: row.JailID, Record: row.ToRecord, State: *row.ToState,
		Overwrite: row.OnConflict == conflictWords[nodev1.OnConflict_ON_CONFLICT_OVERWRITE],
	}
	res, err := w.giveBack(ctx, r, node, row.ID, func() error { return r.Refused(*t.NodeID) })
	if err != nil {
		return err
	}
	return w.finish(context.WithoutCancel(ctx), row, res)
}

// giveBack restores a workspace, once for an operation's id, unless refused returns why not:
// it is asked after each look.
func (w *Workspaces) giveBack(ctx context.Context, r *Restore, node machine.Link, operationID string, refused func() error) (*nodev1.UndoChangesResponse, error) {
	for try := 1; ; try++ {
		if err := w.see(ctx, r, node, operationID); err != nil || r.Seen.GetApplied() {
			return r.Seen, err
		}
		if err := refused(); err != nil {
			return nil, err
		}
		res, err := node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: r.JailID, OperationId: operationID, Range: &nodev1.ChangeRange{From: r.State}, ExpectRecord: r.Record,
			ExpectSnapshot: r.Seen.GetSnapshot(),
		})
		err = fault.FromGRPC(err)
		if fault.Is(err, fault.Aborted) && try < restoreTries {
			continue // it changed since it was read
		}
		if err != nil {
			return nil, gone(r.JailID, err)
		}
		if !res.GetApplied() {
			r.Seen = res
			return nil, refused()
		}
		return res, nil
	}
}

// GoBack brings the workspace of a running task back to what it was at one of its named
// checkpoints, once for a step, whose change that is. Changes of others since are a refusal.
func (w *Workspaces) GoBack(ctx context.Context, t db.Task, node machine.Link, stepID string, named db.CheckpointNamedRow) (tool.Restored, error) {
	r, err := w.findPoint(ctx, t, named)
	if err != nil || r == nil {
		return tool.Restored{}, err // nil: no step has changed anything since
	}
	if r.NodeID != *t.NodeID || r.JailID != t.JailID {
		return tool.Restored{}, fault.New(fault.Precondition, "the workspace of that checkpoint is on node %s", r.NodeID).WithFix("change the files back yourself")
	}
	r.OrgID, r.LineageID = t.OrgID, t.LineageID
	res, err := w.giveBack(ctx, r, node, stepID, r.refusedToAgent)
	if err != nil {
		return tool.Restored{}, err
	}
	out := tool.Restored{Running: res.GetRunning(), Change: &nodev1.WorkspaceChange{
		Id: stepID, Before: res.GetSnapshot(), After: res.GetSnapshot(), Files: res.GetFiles(), Record: r.Record,
		Changes: res.GetChanges()[:min(len(res.GetChanges()), shownChanges)],
	}}
	if res.GetFiles() > 0 {
		out.Change.Before-- // it is one state further
	}
	return out, nil
}

// shownChanges is how many of its changes a step's record describes.
const shownChanges = 100

// refusedToAgent returns why an agent may not bring its workspace back; nil if it may.
func (r *Restore) refusedToAgent() error {
	if len(r.Others) > 0 {
		return fault.New(fault.Precondition, "others have changed the workspace since that checkpoint, and their work would be lost: %s", some(r.Others)).
			WithFix("change your own files back yourself")
	}
	if c := r.Seen.GetConflicts(); len(c) > 0 {
		return fault.New(fault.Precondition, "the workspace of that checkpoint cannot be restored whole: %s", c[0].GetMessage()).
			WithFix("change the files back yourself")
	}
	return nil
}

// restored records that a task's workspace was restored.
func (w *Workspaces) restored(ctx context.Context, tx *event.Tx, row db.Undo, res *nodev1.UndoChangesResponse) error {
	if err := tx.MarkRestored(ctx, db.MarkRestoredParams{
		OrgID: row.OrgID, NodeID: row.NodeID, JailID: row.JailID, UndoID: &row.ID, ChangeIds: res.GetBy(),
	}); err != nil {
		return fmt.Errorf("mark the changes that %s took back: %w", row.ID, err)
	}
	by := askedBy(row)
	said := map[string]any{
		"undo_id": row.ID, "state": *row.ToState, "files": res.GetFiles(), "original_digest": res.GetOriginalDigest(),
		"restored_digest": res.GetRestoredDigest(),
	}
	if err := audit.Append(tx, audit.Entry{
		OrgID: row.OrgID, By: by, Action: "workspace.restored", ObjectKind: "task", ObjectID: *row.TaskID,
		Before: map[string]any{"digest": res.GetOriginalDigest()},
		After: map[string]any{
			"digest": res.GetRestoredDigest(), "undo_id": row.ID, "state": *row.ToState, "files": res.GetFiles(),
			"on_conflict": row.OnConflict, "changes": res.GetBy(),
		},
	}); err != nil {
		return err
	}
	return tx.Append(row.OrgID, *row.TaskID, by, event.Draft{Type: eventkind.WorkspaceRestored, Payload: said})
}
