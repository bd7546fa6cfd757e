package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/lease"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A grant holds for the workspace that the person could look at. The task's jail
// stands still while it waits; the state that the workspace is in then is kept
// with the calls that wait, and compared before the jail goes on: from then on
// the agent's own processes may write. Where the node could not be asked while
// the task waited, there is no state to compare.

// Asked keeps the state of a waiting task's workspace with the calls that wait
// for leave. The jail is frozen.
func (s *Steps) Asked(ctx context.Context, t db.Task, node tool.Node) error {
	now, err := node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: t.JailID})
	if err != nil {
		return fmt.Errorf("record the workspace that %s is asked about: %w", t.ID, fault.FromGRPC(err))
	}
	if _, err := s.cfg.Store.SetAskedWorkspace(ctx, db.SetAskedWorkspaceParams{
		OrgID: t.OrgID, TaskID: t.ID, Attempt: t.Attempt, State: now.GetSnapshot(), Record: now.GetRecord(),
	}); err != nil {
		return fmt.Errorf("keep the workspace that %s is asked about: %w", t.ID, err)
	}
	return nil
}

// unchanged has calls asked about again whose workspace is not what it was when
// they were asked about. The jail is still frozen.
func (s *Steps) unchanged(ctx context.Context, orgID string, le lease.Lease, t db.Task, node tool.Node) error {
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
		t, err := lease.Hold(ctx, tx, orgID, le)
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
