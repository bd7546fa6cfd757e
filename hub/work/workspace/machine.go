package workspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	fleetnode "github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
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
	node, err := w.cfg.Node(m.NodeID)
	if err != nil {
		return out, err
	}
	undo := func(dir, operation string, preview bool) (*nodev1.UndoChangesResponse, error) {
		res, err := node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: nodelink.HostFolder + dir, OperationId: operation, Range: &nodev1.ChangeRange{By: []string{m.ChangeID}}, OnConflict: req.OnConflict, Preview: preview,
		})
		if err != nil {
			return nil, fault.FromGRPC(err)
		}
		for _, c := range res.GetChanges() {
			c.Path = append([]byte(dir+"/"), c.GetPath()...)
		}
		for _, c := range res.GetConflicts() {
			c.Path = append([]byte(dir+"/"), c.GetPath()...)
		}
		return res, nil
	}
	out.Node = &nodev1.UndoChangesResponse{}
	var changed []string
	for _, dir := range m.Folders {
		res, err := undo(dir, "", true)
		if err != nil {
			return out, err
		}
		if res.GetFiles() > 0 || len(res.GetConflicts()) > 0 {
			changed = append(changed, dir)
			merge(out.Node, res)
		}
	}
	if len(changed) == 0 {
		return out, fault.New(fault.NotFound, "step %s changed nothing in the folders that are recorded, or it was undone", step.ID).WithObject(step.ID).
			WithFix("see what it changed: deckhand task steps %s", step.TaskID)
	}
	how := req.OnConflict
	if req.Preview || len(out.Node.GetConflicts()) > 0 && how != nodev1.OnConflict_ON_CONFLICT_SKIP && how != nodev1.OnConflict_ON_CONFLICT_OVERWRITE {
		return out, nil
	}
	// The caller may disconnect: what was begun is completed.
	ctx = context.WithoutCancel(ctx)
	id := ident.New("undo")
	done := &nodev1.UndoChangesResponse{}
	for i, dir := range changed {
		res, err := undo(dir, fmt.Sprintf("%s.%d", id, i), false)
		if err != nil {
			return out, fmt.Errorf("undo %s in %s: %w", step.ID, dir, err)
		}
		merge(done, res)
		done.Applied = done.GetApplied() || res.GetApplied()
	}
	out.Node, out.ID = done, id
	return out, w.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: step.OrgID, By: req.By, Action: "machine.undone", ObjectKind: "step", ObjectID: step.ID,
			After: map[string]any{"undo_id": id, "node_id": m.NodeID, "task_id": step.TaskID, "files": done.GetFiles(), "folders": changed},
		})
	})
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

// merge adds what an undo does in one folder to what it does in others.
func merge(into, res *nodev1.UndoChangesResponse) {
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
