package task

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// locked runs fn in a transaction that has locked the task's row, and returns the task in
// its state afterwards.
func (s *Service) locked(ctx context.Context, orgID, id string, fn func(tx *event.Tx, t db.Task) error) (db.GetTaskRow, error) {
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", id, err)
		}
		return fn(tx, t)
	})
	if err != nil {
		return db.GetTaskRow{}, err
	}
	return s.Get(ctx, orgID, id)
}

// Pause stops a task until it is resumed. Its lease ends, and its running commands are
// frozen. Pausing a paused task has no effect.
func (s *Service) Pause(ctx context.Context, orgID, id, reason string, by event.Actor) (db.GetTaskRow, error) {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		why := said("paused by "+by.ID, tx.Redact(orgID).String(reason)) + "; go on with: deckhand task resume " + id
		switch from := State(t.State); from {
		case Paused:
			return nil
		case Starting:
			// Without a lease for a moment: its worker stops at its next call.
			var err error
			if t, err = Requeue(ctx, tx, t, why, "released", by); err != nil {
				return err
			}
		case AwaitingApproval, NeedsInput:
			return fault.New(fault.Precondition, "task %s is %s: nothing of it goes on before a person answers", id, from).
				WithObject(id).WithFix("answer it (deckhand inbox list), or end it: deckhand task cancel %s", id)
		default:
			if !from.May(Paused) {
				return refuse(id, from, Paused)
			}
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		_, err := Move(ctx, tx, t, Paused, why, by)
		return err
	})
}

// PauseNext pauses a task when its model has chosen the next tool call, before that runs.
func (s *Service) PauseNext(ctx context.Context, orgID, id, reason string, by event.Actor) (db.GetTaskRow, error) {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		switch from := State(t.State); {
		case from == Paused || t.PauseNext != "":
			return nil
		case from.Final() || from == ReviewNeeded || from == Escalated:
			return refuse(id, from, Paused)
		}
		return s.setPauseNext(ctx, tx, t, said(by.ID, tx.Redact(orgID).String(reason)), "task.pause_next", by)
	})
}

func (s *Service) setPauseNext(ctx context.Context, tx *event.Tx, t db.Task, who, action string, by event.Actor) error {
	if err := tx.SetPauseNext(ctx, db.SetPauseNextParams{OrgID: t.OrgID, ID: t.ID, PauseNext: who}); err != nil {
		return fmt.Errorf("have task %s pause: %w", t.ID, err)
	}
	if err := audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: by, Action: action, ObjectKind: "task", ObjectID: t.ID,
		Before: map[string]any{"pause_next": t.PauseNext}, After: map[string]any{"pause_next": who},
	}); err != nil {
		return err
	}
	return tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.PauseRequested, Payload: map[string]any{"on_next_tool": who != "", "by": by.ID}})
}

// PausedBefore is the reason of a task that was paused before a step.
func PausedBefore(t db.Task, stepID, tool string) string {
	return fmt.Sprintf("paused before step %s (%s), as asked by %s; have it run with: deckhand task resume %s", stepID, tool, t.PauseNext, t.ID)
}

// said appends a reason to the text about who did something.
func said(who, reason string) string {
	if reason == "" {
		return who
	}
	return who + ": " + reason
}

// Resume resumes a paused task, and revokes a pause that is only requested. Resuming a
// task that is not paused has no effect. limits are what its run may use from here on.
func (s *Service) Resume(ctx context.Context, orgID, id string, limits Limits, by event.Actor) (db.GetTaskRow, error) {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		if err := lift(ctx, tx, t, limits, by); err != nil {
			return err
		}
		// After a restore from a backup: a person has looked at what was recovered.
		cleared, err := tx.ClearRestoredTask(ctx, db.ClearRestoredTaskParams{OrgID: orgID, TaskID: id})
		if err != nil {
			return fmt.Errorf("release restored task %s: %w", id, err)
		}
		if cleared > 0 {
			if err := audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: "task.restore_cleared", ObjectKind: "task", ObjectID: id}); err != nil {
				return err
			}
		}
		switch from := State(t.State); {
		case from == Paused:
			tx.Publish(change.QueueChanged{OrgID: orgID})
			_, err := Move(ctx, tx, t, Queued, "resumed by "+by.ID+"; waits for a worker", by)
			return err
		case cleared > 0 && from != Escalated && !from.Final():
			// It goes on when what it waits for comes: an answer, a verdict, another task.
			tx.Publish(change.QueueChanged{OrgID: orgID})
			return nil
		case t.PauseNext != "":
			return s.setPauseNext(ctx, tx, t, "", "task.pause_taken_back", by)
		case from == Queued || from == Starting || from == Running:
			tx.Publish(change.QueueChanged{OrgID: orgID})
			return nil
		case from == Escalated:
			return refuse(id, from, Queued).WithFix("try it again with: deckhand task retry %s", id)
		default:
			return refuse(id, from, Queued)
		}
	})
}

// LiftIn sets limits of a paused task whose row the transaction has locked, and queues it.
func LiftIn(ctx context.Context, tx *event.Tx, t db.Task, limits Limits, by event.Actor) error {
	if err := lift(ctx, tx, t, limits, by); err != nil {
		return err
	}
	return GoOn(ctx, tx, t, "resumed by "+by.ID, by)
}

// GoOn queues a paused task whose row the transaction has locked.
func GoOn(ctx context.Context, tx *event.Tx, t db.Task, why string, by event.Actor) error {
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err := Move(ctx, tx, t, Queued, why+"; waits for a worker", by)
	return err
}

// lift sets limits of a task that has not ended.
func lift(ctx context.Context, tx *event.Tx, t db.Task, limits Limits, by event.Actor) error {
	if limits == (Limits{}) || State(t.State).Final() {
		return nil
	}
	before, err := OverrideOf(t)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	after := before.merged(Override{Limits: limits})
	column, err := after.Column()
	if err != nil {
		return err
	}
	if err := tx.SetTaskOverride(ctx, db.SetTaskOverrideParams{OrgID: t.OrgID, ID: t.ID, Override: column}); err != nil {
		return fmt.Errorf("set the limits of %s: %w", t.ID, err)
	}
	if err := audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: by, Action: "task.limits_lifted", ObjectKind: "task", ObjectID: t.ID,
		Before: map[string]any{"limits": before.Limits}, After: map[string]any{"limits": after.Limits},
	}); err != nil {
		return err
	}
	return tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.LimitsLifted, Payload: map[string]any{"limits": after.Limits, "by": by.ID}})
}

// ActiveTask returns the task that an agent is working on: the one that began last of
// those that have begun and not ended; nil for an idle agent.
func (s *Service) ActiveTask(ctx context.Context, orgID, agentID string) (*db.Task, error) {
	t, err := s.cfg.Store.TaskOfAgent(ctx, db.TaskOfAgentParams{OrgID: orgID, AgentID: agentID})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("see what agent %s is at: %w", agentID, err)
	}
	return &t, nil
}
