package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/wait"
)

// Yield ends an attempt whose next call waits for a person or for another task. If the
// decision has come by then, the task goes back to the queue instead.
func (s *Service) Yield(ctx context.Context, orgID string, le lease.Lease, drafts []event.Draft) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		by := event.Actor{Kind: "worker", ID: *t.WorkerID}
		if err := tx.Append(orgID, t.ID, by, drafts...); err != nil {
			return err
		}
		return Park(ctx, tx, t, by)
	})
}

// Park takes a task from its worker because one of its calls waits. The task's row is
// locked. A task without a worker is left unchanged: its next worker yields.
func Park(ctx context.Context, tx *event.Tx, t db.Task, by event.Actor) error {
	if !task.State(t.State).May(task.AwaitingApproval) {
		return nil
	}
	to, reason, err := parking(ctx, tx, t)
	if err != nil {
		return err
	}
	// Either way a slot is free.
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	if to == task.Queued {
		_, err = task.Requeue(ctx, tx, t, "its answer has come; waits for a worker", "released", by)
		return err
	}
	_, err = task.Move(ctx, tx, t, to, reason, by)
	return err
}

// parking returns the state that a task moves to and its reason: queued if the first of
// its open calls may run, and otherwise the state in which that call waits. Calls run in
// their order, since a later one may depend on an earlier one's effect.
func parking(ctx context.Context, tx *event.Tx, t db.Task) (task.State, string, error) {
	step, err := tx.NextOpenStep(ctx, db.NextOpenStepParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		return task.Queued, "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("find the next call of task %s: %w", t.ID, err)
	}
	item, err := tx.OpenInboxItem(ctx, db.OpenInboxItemParams{OrgID: t.OrgID, StepID: step.ID})
	if store.IsNotFound(err) {
		why, err := wait.Reason(ctx, tx.Queries, t.OrgID, t.ID)
		if err != nil || why == "" {
			return task.Queued, "", err
		}
		return task.Waiting, why, nil
	}
	if err != nil {
		return "", "", fmt.Errorf("find what step %s waits for: %w", step.ID, err)
	}
	until := ""
	if item.ExpiresAt != nil {
		until = ", until " + item.ExpiresAt.UTC().Format(time.RFC3339)
	}
	switch Kind(item.Kind) {
	case Question:
		return task.NeedsInput, fmt.Sprintf("the agent asks a question%s: deckhand inbox show %s", until, item.ID), nil
	case Unknown:
		return task.AwaitingApproval, fmt.Sprintf(
			"the outcome of step %s (%s) is unknown: check the evidence and decide: deckhand inbox show %s", step.ID, step.Tool, item.ID), nil
	default:
		return task.AwaitingApproval, fmt.Sprintf("step %s (%s) waits for approval%s: deckhand inbox show %s", step.ID, step.Tool, until, item.ID), nil
	}
}
