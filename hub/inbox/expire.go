package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// sweepBatch is the number of items that one sweep handles.
const sweepBatch = 200

// Start starts the goroutine that expires items.
func (s *Service) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(s.cfg.Sweep)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			if _, err := s.Expire(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("cannot close inbox items whose time is over; will try again", "error", err)
			}
		}
	})
}

// Expire applies the timeout action of every item whose time is over by the database's
// clock, and returns how many there were. Any number of hubs may call it at once.
func (s *Service) Expire(ctx context.Context) (int, error) {
	rows, err := s.cfg.Store.ExpiredInboxItems(ctx, sweepBatch)
	if err != nil {
		return 0, fmt.Errorf("find inbox items whose time is over: %w", err)
	}
	closed := 0
	var errs []error
	for _, row := range rows {
		// An item that cannot be closed does not block the others.
		errs = append(errs, s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: row.OrgID, ID: row.TaskID})
			if err != nil {
				return fmt.Errorf("lock task %s: %w", row.TaskID, err)
			}
			item, err := tx.ExpireInboxItem(ctx, db.ExpireInboxItemParams{OrgID: row.OrgID, ID: row.ID})
			if store.IsNotFound(err) {
				return nil // decided or closed by now
			}
			if err != nil {
				return fmt.Errorf("close inbox item %s: %w", row.ID, err)
			}
			tx.AfterCommit(func() { closed++ })
			return s.expire(ctx, tx, t, item)
		}))
	}
	return closed, errors.Join(errs...)
}

func (s *Service) expire(ctx context.Context, tx *event.Tx, t db.Task, item db.InboxItem) error {
	if _, err := s.cfg.Steps.Resolve(ctx, tx, t, item, Answer{Verdict: TimeOut}); err != nil {
		return err
	}
	if err := tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.InboxExpired, Payload: map[string]any{
		"item_id": item.ID, "kind": item.Kind, "step_id": store.Text(item.StepID), "tool": item.Tool, "on_expiry": item.OnExpiry,
	}}); err != nil {
		return err
	}
	why := fmt.Sprintf("nobody answered %s in time", item.ID)
	// A call that a timeout rejected is audited like one that a person rejected.
	if err := audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: event.Hub, Action: "inbox.expired", ObjectKind: "inbox_item", ObjectID: item.ID, Reason: why,
		Before: map[string]any{"kind": item.Kind, "task_id": item.TaskID, "step_id": store.Text(item.StepID), "tool": item.Tool, "preview": item.Preview},
		After:  map[string]any{"on_expiry": item.OnExpiry},
	}); err != nil {
		return err
	}
	if item.OnExpiry != OnExpiryStop || !task.State(t.State).May(task.TimedOut) {
		return s.settle(ctx, tx, t, why+"; waits for a worker", event.Hub)
	}
	if err := tx.SetTaskResult(ctx, db.SetTaskResultParams{
		OrgID: t.OrgID, ID: t.ID, Summary: t.Summary, ErrorCode: string(fault.ApprovalExpired), ErrorMessage: why,
	}); err != nil {
		return fmt.Errorf("store result of %s: %w", t.ID, err)
	}
	steps, err := tx.CancelSteps(ctx, db.CancelStepsParams{OrgID: t.OrgID, TaskID: t.ID, Reason: why})
	if err != nil {
		return fmt.Errorf("end open steps of %s: %w", t.ID, err)
	}
	if err := task.AuditCancelled(tx, steps, t); err != nil {
		return err
	}
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err = task.Move(ctx, tx, t, task.TimedOut, why+", and the persona's approvals.on_timeout is stop", event.Hub)
	return err
}
