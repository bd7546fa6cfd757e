package step

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A grant holds for the workspace that the person could look at. The task's jail
// stands still while it waits; the state that the workspace is in then is kept
// with the calls that wait, and compared before the jail goes on: from then on
// the agent's own processes may write. An answer may come before the jail stands
// still: then the state is that of the answer. Where the node is away until the
// answer has come, it is what the agent's last call left; where there was none,
// the call is asked about again.

// RecordWorkspace keeps the state of a waiting task's workspace with the calls that wait
// for leave; with first, only with those that have none yet. The jail is frozen.
func (s *Steps) RecordWorkspace(ctx context.Context, t db.Task, node machine.Link, first bool) error {
	now, err := node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: t.JailID})
	if err != nil {
		return fmt.Errorf("record the workspace that %s is asked about: %w", t.ID, fault.FromGRPC(err))
	}
	if _, err := s.cfg.Store.SetAskedWorkspace(ctx, db.SetAskedWorkspaceParams{
		OrgID: t.OrgID, TaskID: t.ID, Attempt: t.Attempt, State: now.GetSnapshot(), Record: now.GetRecord(), First: first,
	}); err != nil {
		return fmt.Errorf("keep the workspace that %s is asked about: %w", t.ID, err)
	}
	return nil
}

// lookTimeout is how long an answer waits for the node's look at the workspace.
const lookTimeout = 15 * time.Second

// EnsureWorkspaceRecorded keeps the state of the workspace with a call that is about to be
// allowed, where none was kept yet: the answer came before the task's jail stood
// still. It says whether the node could not be asked. It implements inbox.Steps.
func (s *Steps) EnsureWorkspaceRecorded(ctx context.Context, orgID, stepID string) (unseen bool, err error) {
	step, err := s.Get(ctx, orgID, stepID)
	if err != nil || State(step.State) != Waiting || step.AskedState != nil || step.NodeID == nil ||
		s.place(step) != deckhandv1.ToolPlace_TOOL_PLACE_NODE {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	node, err := s.cfg.Node(*step.NodeID)
	var now *nodev1.TakeSnapshotResponse
	if err == nil {
		now, err = node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: step.JailID})
	}
	switch err = fault.FromGRPC(err); {
	case fault.Is(err, fault.Unavailable), fault.Is(err, fault.Deadline):
		// What is known is what the agent's last call left.
		now, err = s.lastKnownWorkspace(context.WithoutCancel(ctx), step)
		if err != nil || now == nil {
			return err == nil, err
		}
	case fault.Is(err, fault.NotFound):
		now = &nodev1.TakeSnapshotResponse{} // there is no jail yet, or no more
	case err != nil:
		// No room, or a node that keeps no states: there is nothing to bind to.
		s.cfg.Log.Info("an approval is not bound to the workspace", "step_id", stepID, "reason", err)
		return false, nil
	}
	if err := s.cfg.Store.SetLookedAt(ctx, db.SetLookedAtParams{
		OrgID: orgID, ID: stepID, State: now.GetSnapshot(), Record: now.GetRecord(),
	}); err != nil {
		return false, fmt.Errorf("keep the workspace that %s is granted for: %w", stepID, err)
	}
	return false, nil
}

// lastKnownWorkspace returns the workspace as the last of the task's calls before a step
// left it; nil where that is not known.
func (s *Steps) lastKnownWorkspace(ctx context.Context, step db.Step) (*nodev1.TakeSnapshotResponse, error) {
	at, err := s.cfg.Store.WorkspaceAt(ctx, db.WorkspaceAtParams{OrgID: step.OrgID, TaskID: step.TaskID, Turn: step.Turn})
	switch {
	case store.IsNotFound(err) || err == nil && (at.NodeID != *step.NodeID || at.JailID != step.JailID):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the workspace that %s is granted for: %w", step.ID, err)
	}
	return &nodev1.TakeSnapshotResponse{Snapshot: at.State, Record: at.Record}, nil
}

// unseenPart is the part of a grant's binding that no call has: the workspace as
// nobody saw it.
const unseenPart = "workspace_unseen"

// unseenIn returns a binding that does not hold, since nobody could look at the
// workspace.
func unseenIn(binding json.RawMessage) (json.RawMessage, error) {
	var parts map[string]string
	if err := json.Unmarshal(binding, &parts); err != nil {
		return nil, fmt.Errorf("read a binding: %w", err)
	}
	parts[unseenPart] = "its node was away"
	return json.Marshal(parts)
}

// reaskIfChanged has calls asked about again whose workspace is not what it was when
// they were asked about. Where the task waited the jail is still frozen.
func (s *Steps) reaskIfChanged(ctx context.Context, orgID string, le lease.Lease, t db.Task, node machine.Link) error {
	asked, err := s.cfg.Store.GrantedAsAsked(ctx, db.GrantedAsAskedParams{OrgID: orgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("find what %s was granted: %w", t.ID, err)
	}
	if len(asked) == 0 {
		return nil
	}
	now, err := node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: t.JailID})
	switch err = fault.FromGRPC(err); {
	case fault.Is(err, fault.NotFound):
		now = &nodev1.TakeSnapshotResponse{} // the jail was removed, and its workspace with it
	case fault.Is(err, fault.Exhausted):
		return nil // there is no room: the call itself is refused for that
	case err != nil:
		return fmt.Errorf("look at the workspace of %s: %w", t.ID, err)
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		for _, one := range asked {
			// Its first look has been: what the agent's own processes do from here on
			// is no change of what was asked about.
			if err := tx.ForgetAskedWorkspace(ctx, db.ForgetAskedWorkspaceParams{OrgID: orgID, ID: one.ID}); err != nil {
				return fmt.Errorf("forget the workspace of step %s: %w", one.ID, err)
			}
			if one.State == now.GetSnapshot() && one.Record == now.GetRecord() {
				continue
			}
			step, err := tx.GetStep(ctx, db.GetStepParams{OrgID: orgID, ID: one.ID})
			if err != nil {
				return fmt.Errorf("read step %s: %w", one.ID, err)
			}
			if State(step.State) != Granted {
				continue
			}
			if err := s.askAgain(ctx, tx, t, step, []string{"workspace"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// reaskIfChangedWhileRunning is unchanged for a call that was allowed while its task ran on:
// its attempt began before the answer.
func (s *Steps) reaskIfChangedWhileRunning(ctx context.Context, orgID string, le lease.Lease, step db.Step) error {
	node, err := s.node(ctx, step)
	if err != nil {
		return s.unlessUnavailable(err)
	}
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: step.TaskID})
	if err != nil {
		return fmt.Errorf("load task %s: %w", step.TaskID, err)
	}
	return s.reaskIfChanged(ctx, orgID, le, row.Task, node)
}
