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
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// An approval is valid only for the workspace state that the approver could inspect. The
// task's jail is frozen while the task waits. The state of the workspace is recorded with
// the calls that wait, and compared before the jail is thawed: from then on the agent's
// own processes may write. If the decision comes before the jail is frozen, the state is
// recorded with the decision. If the node is offline until after the decision, the state
// that the agent's last call left counts; if there is none, approval is requested again.

// RecordWorkspace records the state of a waiting task's workspace with the calls that
// wait for approval; with first, only with those that have none yet. The jail is frozen.
func (s *Steps) RecordWorkspace(ctx context.Context, t db.Task, node machine.Link, first bool) error {
	now, err := node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: t.JailID})
	if err != nil {
		return fmt.Errorf("snapshot the workspace of %s: %w", t.ID, fault.FromGRPC(err))
	}
	if _, err := s.cfg.Store.SetAskedWorkspace(ctx, db.SetAskedWorkspaceParams{
		OrgID: t.OrgID, TaskID: t.ID, Attempt: t.Attempt, State: now.GetSnapshot(), Record: now.GetRecord(), First: first,
	}); err != nil {
		return fmt.Errorf("record the workspace of %s for its approval: %w", t.ID, err)
	}
	return s.lookAgainAtFiles(ctx, t)
}

// lookTimeout is how long a decision waits for the node to record the workspace.
const lookTimeout = 15 * time.Second

// EnsureWorkspaceRecorded records the state of the workspace with a call that is about to
// be approved if none was recorded yet, because the decision came before the task's jail
// was frozen. unseen reports that the node could not be asked. It implements inbox.Steps.
func (s *Steps) EnsureWorkspaceRecorded(ctx context.Context, orgID, stepID string) (unseen bool, err error) {
	step, err := s.Get(ctx, orgID, stepID)
	if err != nil || State(step.State) != Waiting || step.AskedState != nil || step.NodeID == nil ||
		s.place(step) != deckhandv1.ToolPlace_TOOL_PLACE_NODE || step.JailID == nodelink.HostJail {
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
		// The last known state is the one that the agent's last call left.
		now, err = s.lastKnownWorkspace(context.WithoutCancel(ctx), step)
		if err != nil || now == nil {
			return err == nil, err
		}
	case fault.Is(err, fault.NotFound):
		now = &nodev1.TakeSnapshotResponse{} // there is no jail yet, or it was removed
	case err != nil:
		// No space left, or a node that takes no snapshots: there is no state to bind to.
		s.cfg.Log.Info("an approval is not bound to the workspace", "task_id", step.TaskID, "step_id", stepID, "reason", err)
		return false, nil
	}
	if err := s.cfg.Store.SetLookedAt(ctx, db.SetLookedAtParams{
		OrgID: orgID, ID: stepID, State: now.GetSnapshot(), Record: now.GetRecord(),
	}); err != nil {
		return false, fmt.Errorf("record the workspace of step %s: %w", stepID, err)
	}
	return false, nil
}

// lastKnownWorkspace returns the workspace state that the task's last call before a step
// left; nil if it is not known.
func (s *Steps) lastKnownWorkspace(ctx context.Context, step db.Step) (*nodev1.TakeSnapshotResponse, error) {
	at, err := s.cfg.Store.WorkspaceAt(ctx, db.WorkspaceAtParams{OrgID: step.OrgID, TaskID: step.TaskID, Turn: step.Turn})
	switch {
	case store.IsNotFound(err) || err == nil && (at.NodeID != *step.NodeID || at.JailID != step.JailID):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the workspace before step %s: %w", step.ID, err)
	}
	return &nodev1.TakeSnapshotResponse{Snapshot: at.State, Record: at.Record}, nil
}

// unseenPart is a part of a binding that no call ever has: it marks a workspace that
// could not be inspected.
const unseenPart = "workspace_unseen"

// unseenIn returns a binding that never matches, for a workspace that could not be
// inspected.
func unseenIn(binding json.RawMessage) (json.RawMessage, error) {
	var parts map[string]string
	if err := json.Unmarshal(binding, &parts); err != nil {
		return nil, fmt.Errorf("read a binding: %w", err)
	}
	parts[unseenPart] = "its node was away"
	return json.Marshal(parts)
}

// reaskIfChanged requests approval again for calls whose workspace differs from the one
// that was recorded when approval was requested. If the task waited, its jail is still
// frozen.
func (s *Steps) reaskIfChanged(ctx context.Context, orgID string, le lease.Lease, t db.Task, node machine.Link) error {
	asked, err := s.cfg.Store.GrantedAsAsked(ctx, db.GrantedAsAskedParams{OrgID: orgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("find the approved calls of %s: %w", t.ID, err)
	}
	if len(asked) == 0 {
		return nil
	}
	now, err := node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: t.JailID})
	switch err = fault.FromGRPC(err); {
	case fault.Is(err, fault.NotFound):
		now = &nodev1.TakeSnapshotResponse{} // the jail was removed, and its workspace with it
	case fault.Is(err, fault.Exhausted):
		return nil // no space left: the call itself is refused for that
	case err != nil:
		return fmt.Errorf("look at the workspace of %s: %w", t.ID, err)
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		for _, one := range asked {
			// The workspace has been compared once: what the agent's own processes change
			// from here on does not invalidate the approval.
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
			if record := s.cfg.Tools.Get(step.Tool); record != nil && record.Inspects() {
				continue // bound to what it would do, which is inspected before it is made
			}
			if step.JailID == nodelink.HostJail {
				continue // it does not work on the workspace
			}
			if err := s.askAgain(ctx, tx, t, step, []string{"workspace"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// reaskIfChangedWhileRunning is reaskIfChanged for a call that was approved while its
// task was running: its attempt began before the decision.
func (s *Steps) reaskIfChangedWhileRunning(ctx context.Context, orgID string, le lease.Lease, step db.Step) error {
	node, err := s.node(ctx, step)
	if fault.Is(err, fault.Unavailable) {
		return nil
	} else if err != nil {
		return err
	}
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: step.TaskID})
	if err != nil {
		return fmt.Errorf("load task %s: %w", step.TaskID, err)
	}
	return s.reaskIfChanged(ctx, orgID, le, row.Task, node)
}
