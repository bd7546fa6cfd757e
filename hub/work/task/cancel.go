package task

import (
	"context"
	"fmt"
	"sync"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Cancel ends a task and its running commands. Cancelling a cancelled task is
// harmless; any other final task is refused.
func (s *Service) Cancel(ctx context.Context, orgID, id, reason string, by event.Actor) (db.GetTaskRow, error) {
	var live []db.Step
	row, err := s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		if State(t.State) == Cancelled {
			return nil
		}
		why := said("cancelled by "+by.ID, reason)
		steps, err := tx.CancelSteps(ctx, db.CancelStepsParams{OrgID: orgID, TaskID: id, Reason: why})
		if err != nil {
			return fmt.Errorf("cancel steps of %s: %w", id, err)
		}
		if err := AuditCancelled(tx, steps, t); err != nil {
			return err
		}
		for _, step := range steps {
			if step.StartedAt != nil {
				live = append(live, step)
			}
		}
		if _, err := Move(ctx, tx, t, Cancelled, why, by); err != nil {
			return err
		}
		return tx.Append(orgID, id, by, event.Draft{Type: eventkind.ExecutionCancelled, Payload: map[string]any{"reason": why}})
	})
	if err != nil {
		return row, err
	}
	var stopping sync.WaitGroup
	for _, step := range live {
		stopping.Go(func() { s.cfg.Recorder.Publish(change.StepCancelled{Step: step, By: by.ID}) })
	}
	stopping.Wait()
	// Only now: the next task of the agent finds nothing of this one running.
	s.cfg.Recorder.Publish(change.QueueChanged{OrgID: orgID})
	return s.Get(ctx, orgID, id)
}

// CancelAll ends tasks that have not ended and whose rows the transaction has locked,
// with their attempts and open steps, in a constant number of statements. It returns the
// steps; the caller must end the tasks' processes and jails.
func CancelAll(ctx context.Context, tx *event.Tx, orgID string, live []db.Task, why string, code fault.Code, by event.Actor) ([]db.Step, error) {
	if len(live) == 0 {
		return nil, nil
	}
	ids := make([]string, len(live))
	for i, t := range live {
		if from := State(t.State); !from.May(Cancelled) {
			return nil, refuse(t.ID, from, Cancelled)
		}
		ids[i] = t.ID
	}
	steps, err := tx.CancelStepsOf(ctx, db.CancelStepsOfParams{OrgID: orgID, Ids: ids, Reason: why, ErrorCode: string(code)})
	if err != nil {
		return nil, fmt.Errorf("cancel the steps of %d tasks: %w", len(ids), err)
	}
	if err := AuditCancelled(tx, steps, live...); err != nil {
		return nil, err
	}
	err = tx.CancelTasks(ctx, db.CancelTasksParams{OrgID: orgID, Ids: ids, Reason: why, ErrorCode: string(code)})
	if err != nil {
		return nil, fmt.Errorf("cancel %d tasks: %w", len(ids), err)
	}
	if err := tx.EndAttempts(ctx, db.EndAttemptsParams{OrgID: orgID, Ids: ids, Outcome: attemptOutcomes[Cancelled]}); err != nil {
		return nil, fmt.Errorf("end the attempts of %d tasks: %w", len(ids), err)
	}
	for _, t := range live {
		publishTree(tx, t)
		if t.Dependents > 0 {
			ended := t
			ended.State = string(Cancelled)
			if err := settleDependents(ctx, tx, ended); err != nil {
				return nil, err
			}
		}
		if err := tell(tx, t, Cancelled, why, by); err != nil {
			return nil, err
		}
		if err := tx.Append(orgID, t.ID, by, event.Draft{Type: eventkind.ExecutionCancelled, Payload: map[string]any{
			"reason": why, "error_code": string(code),
		}}); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// tell appends the event of a transition, and the audit entry if a person made it.
func tell(tx *event.Tx, t db.Task, to State, reason string, by event.Actor) error {
	if by.Kind == event.User {
		if err := audit.Append(tx, audit.Entry{
			OrgID: t.OrgID, By: by, Action: "task." + string(to), ObjectKind: "task", ObjectID: t.ID, Reason: reason,
			Before: map[string]any{"state": t.State, "reason": t.Reason}, After: map[string]any{"state": string(to)},
		}); err != nil {
			return err
		}
	}
	return tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.StateChanged, Payload: map[string]any{
		"from": t.State, "to": string(to), "reason": reason,
	}})
}
