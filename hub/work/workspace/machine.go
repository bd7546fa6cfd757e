package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	fleetnode "github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// MachineChange is what a step changed in folders of a machine.
type MachineChange struct {
	NodeID string
	// Folders are those that were recorded, and ChangeID is the change's in each.
	Folders  []string
	ChangeID string
}

// UndoOnMachine undoes what one step changed on a machine, or describes what that would do. All
// folders are looked at before one is changed: a conflict in any refuses all, unless it is to be
// skipped or overwritten. While somebody else holds the lock of the node, nothing is changed.
func (w *Workspaces) UndoOnMachine(ctx context.Context, req Request, step db.Step, m MachineChange) (UndoResult, error) {
	span, err := w.span(ctx, step.OrgID, step.FinishedAt)
	if err != nil {
		return UndoResult{}, err
	}
	out := UndoResult{Span: span, StepIDs: []string{step.ID}}
	switch {
	case step.FinishedAt == nil:
		return out, fault.New(fault.Precondition, "step %s has not ended", step.ID).WithObject(step.ID).WithFix("wait for it")
	case !span.Open() && !req.Preview:
		return out, fault.New(fault.Precondition, "the changes of %s could be undone until %s", step.ID, span.Until.UTC().Format(time.RFC3339)).
			WithObject(step.ID).WithFix("change the files back by hand")
	case len(req.Paths) > 0:
		return out, fault.New(fault.Invalid, "paths: what a step changed on a machine is undone as a whole").WithFix("leave paths empty")
	}
	if !req.Preview {
		if err := w.lockFree(ctx, req, m.NodeID); err != nil {
			return out, err
		}
	}
	// What was begun before is completed, so that it is not begun again.
	if err := w.settle(ctx, req.Task); err != nil {
		return out, err
	}
	node, err := w.cfg.Node(m.NodeID)
	if err != nil {
		return out, err
	}
	out.Node = &nodev1.UndoChangesResponse{}
	var rows []db.CreateUndoParams
	for _, dir := range m.Folders {
		res, err := node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: nodelink.HostFolder + dir, Range: &nodev1.ChangeRange{By: []string{m.ChangeID}}, OnConflict: req.OnConflict, Preview: true,
		})
		if err != nil {
			return out, fault.FromGRPC(err)
		}
		if res.GetFiles() > 0 || len(res.GetConflicts()) > 0 {
			rows = append(rows, db.CreateUndoParams{
				ID: ident.New("undo"), OrgID: step.OrgID, TaskID: &step.TaskID, NodeID: m.NodeID, JailID: nodelink.HostFolder + dir,
				StepIds: out.StepIDs, ChangeIds: []string{m.ChangeID}, OnConflict: conflictWords[req.OnConflict], ExpectState: res.GetSnapshot(),
				AskedBy: req.By.ID, Address: req.By.Address, UserAgent: req.By.UserAgent, Paths: []string{},
			})
			merge(out.Node, res, dir)
		}
	}
	switch how := req.OnConflict; {
	case len(rows) == 0:
		return out, fault.New(fault.NotFound, "step %s changed nothing in the folders that are recorded, or it was undone", step.ID).WithObject(step.ID).
			WithFix("see what it changed: deckhand task steps %s", step.TaskID)
	case req.ExpectState != 0 && req.ExpectState != out.Node.GetSnapshot():
		return out, fault.New(fault.Aborted, "the folders have changed since the preview").WithCode(fault.FileConflict).WithObject(step.ID).WithFix("look at a new preview")
	case req.Preview || len(out.Node.GetConflicts()) > 0 && how != nodev1.OnConflict_ON_CONFLICT_SKIP && how != nodev1.OnConflict_ON_CONFLICT_OVERWRITE:
		return out, nil
	}
	// The caller may disconnect: what was begun is completed.
	ctx = context.WithoutCancel(ctx)
	stored := make([]db.Undo, len(rows))
	if err := w.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		for i, row := range rows {
			var err error
			if stored[i], err = tx.CreateUndo(ctx, row); err != nil {
				return fmt.Errorf("store an undo of %s: %w", step.ID, err)
			}
		}
		return nil
	}); err != nil {
		return out, err
	}
	done := &nodev1.UndoChangesResponse{}
	for _, row := range stored {
		res, err := w.carryOut(ctx, node, row)
		if err != nil {
			return out, fmt.Errorf("undo %s in %s: %w", step.ID, folderOf(row), err)
		}
		merge(done, res, folderOf(row))
		if res.GetApplied() {
			done.Applied, out.ID = true, cmp.Or(out.ID, row.ID)
		}
	}
	out.Node = done
	return out, nil
}

// folderOf returns the folder of a machine that an undo is in.
func folderOf(row db.Undo) string { return strings.TrimPrefix(row.JailID, nodelink.HostFolder) }

// machineUndone stores that what a step changed in one folder of a machine was undone.
func machineUndone(ctx context.Context, tx *event.Tx, row db.Undo, res *nodev1.UndoChangesResponse) error {
	if err := tx.MarkMachineUndone(ctx, db.MarkMachineUndoneParams{
		OrgID: row.OrgID, UndoID: &row.ID, NodeID: row.NodeID, JailID: nodelink.HostJail, ChangeIds: row.ChangeIds, BegunAt: row.CreatedAt,
	}); err != nil {
		return fmt.Errorf("mark the step of undo %s: %w", row.ID, err)
	}
	if err := audit.Append(tx, audit.Entry{
		OrgID: row.OrgID, By: askedBy(row), Action: "machine.undone", ObjectKind: "step", ObjectID: row.StepIds[0],
		Before: map[string]any{"digest": res.GetOriginalDigest()},
		After: map[string]any{
			"digest": res.GetRestoredDigest(), "undo_id": row.ID, "node_id": row.NodeID, "task_id": *row.TaskID, "files": res.GetFiles(),
			"folder": folderOf(row), "on_conflict": row.OnConflict, "conflicts": len(res.GetConflicts()),
		},
	}); err != nil {
		return err
	}
	return tx.Append(row.OrgID, *row.TaskID, askedBy(row), event.Draft{Type: eventkind.WorkspaceUndone, Payload: map[string]any{
		"undo_id": row.ID, "step_ids": row.StepIds, "files": res.GetFiles(), "original_digest": res.GetOriginalDigest(),
		"restored_digest": res.GetRestoredDigest(), "conflicts": len(res.GetConflicts()), "paths": []string{}, "node_id": row.NodeID, "folder": folderOf(row),
	}})
}

// lockFree refuses a change of a machine whose node somebody else has locked.
func (w *Workspaces) lockFree(ctx context.Context, req Request, nodeID string) error {
	held, err := w.cfg.Store.HeldNodeLock(ctx, db.HeldNodeLockParams{OrgID: req.Task.OrgID, NodeID: nodeID})
	if store.IsNotFound(err) || err == nil && held.TaskID == nil && held.UserName == req.By.ID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the lock of node %s: %w", nodeID, err)
	}
	row, err := w.cfg.Store.NodeByID(ctx, nodeID)
	if err != nil {
		return fmt.Errorf("load node %s: %w", nodeID, err)
	}
	return fault.New(fault.Precondition, "%s", fleetnode.LockedBy(row.Name, &held)).WithCode(fault.NodeLocked).WithObject(nodeID).WithFix("wait for them")
}

// merge adds what an undo does in one folder to what it does in others. The sum of the folders'
// states, none of which is ever lower than before, stands for all of them.
func merge(into, res *nodev1.UndoChangesResponse, dir string) {
	for _, c := range res.GetChanges() {
		c.Path = append([]byte(dir+"/"), c.GetPath()...)
	}
	for _, c := range res.GetConflicts() {
		c.Path = append([]byte(dir+"/"), c.GetPath()...)
	}
	into.Snapshot += res.GetSnapshot()
	into.Changes = append(into.Changes, res.GetChanges()...)
	into.Conflicts = append(into.Conflicts, res.GetConflicts()...)
	into.Files += res.GetFiles()
	into.Running = max(into.GetRunning(), res.GetRunning())
	for _, other := range res.GetSharedWith() {
		if !slices.Contains(into.GetSharedWith(), other) {
			into.SharedWith = append(into.SharedWith, other)
		}
	}
}
