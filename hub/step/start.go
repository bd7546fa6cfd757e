package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// start stores the intent, unless it was stored with the grant: from here on the step may
// have had its effect. A step whose node is not connected stays granted.
func (s *Steps) start(ctx context.Context, orgID string, le lease.Lease, stepID string) (step db.Step, t db.Task, err error) {
	// In the common case there is nothing to verify or to wait for.
	step, t, err = s.loadLeased(ctx, orgID, le, stepID)
	if err != nil && !store.IsNotFound(err) {
		return step, t, fmt.Errorf("load step %s: %w", stepID, err)
	}
	if err == nil && State(step.State) == Started && onNode(s, step) {
		return step, t, nil
	}
	if err == nil {
		if free, err := waitForPerson(ctx, s, step); err != nil || !free {
			return step, t, err
		}
	}
	if err != nil || !s.ready(step) {
		return s.lookAndStart(ctx, orgID, le, stepID)
	}
	err = s.cfg.Recorder.AppendWith(orgID, t.ID, func(_, payloads []string) error {
		row, err := s.cfg.Store.StartLeasedStep(ctx, db.StartLeasedStepParams{
			OrgID: orgID, TaskID: t.ID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), ID: stepID, Payload: payloads[0], OnNode: onNode(s, step),
		})
		step.StartedAt = row.StartedAt
		return err
	}, executing(step))
	if store.IsNotFound(err) {
		return s.lookAndStart(ctx, orgID, le, stepID)
	}
	if err != nil {
		return step, t, fmt.Errorf("start step %s: %w", stepID, err)
	}
	step.State, step.Attempt = string(Started), le.Attempt
	logStart(ctx, s.cfg.Log, step, le.Attempt)
	return step, t, nil
}

// loadLeased returns a step and its task if the lease is live. It uses the copy cached at
// grant time when the database confirms that it is current, and loads the row otherwise.
func (s *Steps) loadLeased(ctx context.Context, orgID string, le lease.Lease, stepID string) (db.Step, db.Task, error) {
	if got, ok := s.granted.take(orgID, le, stepID); ok {
		if State(got.step.State) == Granted {
			return got.step, got.task, nil // the statement that starts it verifies the copy
		}
		run, err := s.cfg.Store.StepStands(ctx, db.StepStandsParams{
			OrgID: orgID, TaskID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), ID: stepID,
		})
		if err == nil && run == got.step.Run {
			return got.step, got.task, nil
		}
		if err != nil && !store.IsNotFound(err) {
			return db.Step{}, db.Task{}, err
		}
	}
	row, err := s.cfg.Store.LeasedStep(ctx, db.LeasedStepParams{
		OrgID: orgID, TaskID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), ID: stepID,
	})
	return row.Step, row.Task, err
}

// ready reports whether a step can start without further checks: it is granted, not bound
// to an approval, and its node is connected.
func (s *Steps) ready(step db.Step) bool {
	if State(step.State) != Granted || step.GrantedBinding != nil || step.NodeID == nil {
		return false
	}
	if record := s.cfg.Tools.Get(step.Tool); record == nil || record.Place != deckhandv1.ToolPlace_TOOL_PLACE_NODE || record.Asks || record.Waits {
		return false
	}
	_, err := s.cfg.Node(*step.NodeID)
	return err == nil
}

// onNode reports whether a step runs on its node, so that the node's lock can keep it waiting.
func onNode(s *Steps, step db.Step) bool {
	return s.place(step) == deckhandv1.ToolPlace_TOOL_PLACE_NODE
}

func (s *Steps) place(step db.Step) deckhandv1.ToolPlace {
	if record := s.cfg.Tools.Get(step.Tool); record != nil {
		return record.Place
	}
	return deckhandv1.ToolPlace_TOOL_PLACE_UNSPECIFIED
}

// lookAndStart is start for a step that may have been started before, is bound to an
// approval, or has no node.
func (s *Steps) lookAndStart(ctx context.Context, orgID string, le lease.Lease, stepID string) (db.Step, db.Task, error) {
	step, err := s.Get(ctx, orgID, stepID)
	if err != nil {
		return step, db.Task{}, err
	}
	if step.TaskID != le.TaskID {
		return step, db.Task{}, fault.New(fault.NotFound, "task %s has no step %q", le.TaskID, stepID).WithObject(stepID)
	}
	if State(step.State) == Granted && onNode(s, step) {
		// Only the holder of the lease may wait for the node and see the step.
		_, err := s.cfg.Store.GetLeasedTask(ctx, db.GetLeasedTaskParams{ID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token)})
		if store.IsNotFound(err) {
			err = lease.Stale(le)
		}
		if err != nil {
			return db.Step{}, db.Task{}, err
		}
		if _, err := s.node(ctx, step); fault.Is(err, fault.Unavailable) {
			return step, db.Task{}, nil // stays granted
		} else if err != nil {
			return step, db.Task{}, err
		}
	}
	if State(step.State) == Granted && step.GrantedBinding != nil && step.AskedState != nil {
		if err := s.reaskIfChangedWhileRunning(ctx, orgID, le, step); err != nil {
			return step, db.Task{}, err
		}
	}
	give, err := s.giving(ctx, step)
	if err != nil {
		return step, db.Task{}, err
	}
	var t db.Task
	parked := false
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if t, err = lease.LockTask(ctx, tx, orgID, le); err != nil {
			return err
		}
		if step.GrantedBinding != nil || State(step.State) == Waiting {
			// Read again: decisions are stored under the task's lock.
			if step, err = s.verifyGrant(ctx, tx, t, stepID); err != nil || State(step.State) == Waiting {
				return err
			}
		}
		if give != nil {
			step, err = s.createSubtask(ctx, tx, t, stepID, give)
			return err
		}
		if record := s.cfg.Tools.Get(step.Tool); record != nil && record.Waits {
			if step, parked, err = s.park(ctx, tx, t, stepID); err != nil || parked {
				return err
			}
		}
		step, err = s.startIn(ctx, tx, t, step)
		return err
	})
	if err == nil && !parked && State(step.State) == Granted && onNode(s, step) {
		err = waitForLock(ctx, s, t, step)
	}
	return step, t, err
}

// startIn is start in a transaction that has locked the task's row. The caller has
// verified the grant.
func (s *Steps) startIn(ctx context.Context, tx *event.Tx, t db.Task, step db.Step) (db.Step, error) {
	step, started, err := s.begin(ctx, tx, t, step, Granted)
	if err != nil || !started {
		return step, err
	}
	if record := s.cfg.Tools.Get(step.Tool); record == nil || record.Place != deckhandv1.ToolPlace_TOOL_PLACE_WORKER && !record.Asks && !record.Stores() {
		return step, nil
	}
	// The call only touches the conversation and the database: there is nothing to wait for.
	return s.conclude(ctx, tx, t, step)
}

// begin stores that a call is made, with its event, in a transaction that has locked the
// task's row and verified that it may be made. from is Granted, or Deferred. For a step in
// another state, because it was started before or has ended, or whose node another agent's task
// has locked, started is false.
func (s *Steps) begin(ctx context.Context, tx *event.Tx, t db.Task, one db.Step, from State) (step db.Step, started bool, err error) {
	step, err = tx.StartStep(ctx, db.StartStepParams{
		OrgID: t.OrgID, ID: one.ID, TaskID: t.ID, Attempt: t.Attempt, Released: from == Deferred, OnNode: onNode(s, one),
	})
	if store.IsNotFound(err) {
		step, err = tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: one.ID})
		return step, false, err
	}
	if err != nil {
		return step, false, fmt.Errorf("start step %s: %w", one.ID, err)
	}
	tx.AfterCommit(func() { logStart(ctx, s.cfg.Log, step, t.Attempt) })
	return step, true, tx.Append(t.OrgID, t.ID, event.Hub, executing(step))
}
