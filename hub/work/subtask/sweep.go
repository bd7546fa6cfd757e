package subtask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// sweepBatch bounds what one look takes on.
const sweepBatch = 500

// Moved is called after a commit that moved a task with a parent or subtasks. It does not
// block.
func (s *Service) Moved(t db.Task) {
	if t.ParentID != nil {
		s.mu.Lock()
		s.stale[parent{t.OrgID, *t.ParentID}] = true
		s.mu.Unlock()
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Start begins to see to the ends of subtasks.
func (s *Service) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(s.cfg.Sweep)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-s.kick:
			case <-ticker.C:
			}
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("cannot handle ended subtasks; will try again", "error", err)
			}
		}
	})
}

// Sweep continues parents whose subtasks have ended, and ends subtasks whose parent has.
// Any number of hubs may call it at once.
func (s *Service) Sweep(ctx context.Context) error {
	answered, err := s.cfg.Store.AnsweredParents(ctx, sweepBatch)
	if err != nil {
		return fmt.Errorf("find tasks whose subtasks have ended: %w", err)
	}
	s.mu.Lock()
	due := s.stale
	s.stale = map[parent]bool{}
	s.mu.Unlock()
	for _, row := range answered {
		due[parent{row.OrgID, row.TaskID}] = true
	}
	var errs []error
	for p := range due {
		errs = append(errs, s.answer(ctx, p))
	}
	orphans, err := s.cfg.Store.Orphans(ctx, sweepBatch)
	if err != nil {
		errs = append(errs, fmt.Errorf("find subtasks whose parent has ended: %w", err))
	}
	for _, row := range orphans {
		why := fmt.Sprintf("task %s, which it was a part of, is %s", row.ParentID, row.ParentState)
		_, err := s.cfg.Tasks.Cancel(ctx, row.OrgID, row.ID, why, event.Hub)
		if !fault.Is(err, fault.Precondition) { // it has ended by itself
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// answer grants the calls of a parent whose subtasks have ended, and queues it
// when it waits for no other.
func (s *Service) answer(ctx context.Context, p parent) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: p.orgID, ID: p.taskID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", p.taskID, err)
		}
		// Read first: a subtask that ends after this has its call among those that are read
		// next, so no parent is queued whose call still waits.
		why, err := WaitReason(ctx, tx.Queries, t.OrgID, t.ID)
		if err != nil {
			return err
		}
		steps, err := tx.AnsweredSteps(ctx, db.AnsweredStepsParams{OrgID: t.OrgID, TaskID: t.ID})
		if err != nil {
			return fmt.Errorf("find the calls of %s whose subtasks have ended: %w", t.ID, err)
		}
		for _, step := range steps {
			if err := s.grant(ctx, tx, t, step); err != nil {
				return err
			}
		}
		ended, err := tx.EndedInBackground(ctx, db.EndedInBackgroundParams{OrgID: t.OrgID, TaskID: t.ID, Type: string(eventkind.AgentSubtaskEnded)})
		if err != nil {
			return fmt.Errorf("find the subtasks of %s that have ended in the background: %w", t.ID, err)
		}
		for _, step := range ended {
			given, _, _, err := s.ChildOf(ctx, tx.Queries, step)
			if err == nil {
				err = tell(tx, t, step, given)
			}
			if err != nil {
				return err
			}
		}
		// One that waits for a timer is not ours to move.
		if task.State(t.State) != task.Waiting || t.NotBefore != nil {
			return nil
		}
		if why == t.Reason {
			return nil
		}
		if why != "" {
			return tx.SetWaitingReason(ctx, db.SetWaitingReasonParams{OrgID: t.OrgID, ID: t.ID, Reason: why})
		}
		if waits, err := tx.WaitsOf(ctx, db.WaitsOfParams{OrgID: t.OrgID, TaskID: t.ID}); err != nil || len(waits) > 0 {
			return err // a call of wait goes on; package wait queues the task after it
		}
		tx.Publish(change.QueueChanged{OrgID: t.OrgID})
		_, err = task.Move(ctx, tx, t, task.Queued, "what it waited for has ended; waits for a worker", event.Hub)
		return err
	})
}

func (s *Service) grant(ctx context.Context, tx *event.Tx, t db.Task, step db.Step) error {
	given, _, _, err := s.ChildOf(ctx, tx.Queries, step)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("task %s is %s", given.TaskID, given.State)
	if _, err := tx.ResolveStep(ctx, db.ResolveStepParams{
		OrgID: step.OrgID, ID: step.ID, FromState: step.State, State: "granted", DecisionReason: why,
	}); err != nil {
		return fmt.Errorf("grant step %s: %w", step.ID, err)
	}
	return tell(tx, t, step, given)
}

// tell appends that the subtask of a call has ended.
func tell(tx *event.Tx, t db.Task, step db.Step, given tool.ChildTask) error {
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.AgentSubtaskEnded, Payload: map[string]any{
		"step_id": step.ID, "task_id": given.TaskID, "agent": given.Agent, "state": given.State, "cost_micros": given.CostMicros,
		"iterations": given.Iterations, "error_code": given.Code,
	}})
}
