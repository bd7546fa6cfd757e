package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Failure is the end of a run that trying again may mend.
type Failure struct {
	Code, Message string
	// After is the shortest time to wait, if the refusal named one.
	After time.Duration
}

// Retries is how often a task is tried again after transient failures in a row,
// without an iteration between them, before a person must look.
const Retries = 3

// retryDelay is full jitter: those that failed together do not come back
// together.
var retryDelay = backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute}

// Fail takes a leased task from its worker after a transient failure. It waits
// for its next try without a slot; when its retries are spent it is escalated.
func Fail(ctx context.Context, tx *event.Tx, t db.Task, f Failure, by event.Actor) error {
	if t.Failures >= Retries {
		return Escalate(ctx, tx, t, fmt.Sprintf("Failed %d times in a row. Last error: %s", t.Failures+1, strings.TrimSuffix(f.Message, ".")), f.Code, by)
	}
	n := int(t.Failures) + 1
	wait := f.After + retryDelay.FullDelay(n)
	reason := fmt.Sprintf("%s; tries again in %s (retry %d of %d)", f.Message, wait.Round(time.Second), n, Retries)
	if err := tx.CountTaskFailure(ctx, db.CountTaskFailureParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
		return fmt.Errorf("count failure of %s: %w", t.ID, err)
	}
	if err := tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.AgentRetry, Payload: map[string]any{
		"error_code": f.Code, "message": f.Message, "retry": n, "retries": Retries, "wait_ms": wait.Milliseconds(),
	}}); err != nil {
		return err
	}
	to := Waiting
	if State(t.State) == Starting {
		to = Queued // it is not considered before its time
	}
	if _, err := Move(ctx, tx, t, to, reason, by); err != nil {
		return err
	}
	if err := tx.SetTaskTimer(ctx, db.SetTaskTimerParams{OrgID: t.OrgID, ID: t.ID, Wait: wait, Reason: reason}); err != nil {
		return fmt.Errorf("set the timer of %s: %w", t.ID, err)
	}
	return nil
}

// Escalate assigns a task to a person: its submitter, unless it is assigned to a person
// already. The reason describes the problem and what can be done.
func Escalate(ctx context.Context, tx *event.Tx, t db.Task, cause, code string, by event.Actor) error {
	if err := tx.NameAssignee(ctx, db.NameAssigneeParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
		return fmt.Errorf("name who is to decide on %s: %w", t.ID, err)
	}
	cause = tx.Redact(t.OrgID).String(cause)
	options := []string{
		"deckhand task retry " + t.ID,
		"deckhand task retry " + t.ID + " --memory SIZE",
		"deckhand task retry " + t.ID + " --node NODE",
		"deckhand task retry " + t.ID + " --provider PROVIDER --model MODEL",
		"deckhand task cancel " + t.ID,
	}
	_, err := Move(ctx, tx, t, Escalated, fmt.Sprintf(
		"%s. Fix the cause and retry, or close the task. Commands: deckhand task retry %s [--memory SIZE] [--node NODE] [--provider PROVIDER --model MODEL]; deckhand task cancel %s",
		cause, t.ID, t.ID), by)
	if err != nil {
		return err
	}
	item, err := tx.CreateInboxItem(ctx, db.CreateInboxItemParams{
		ID: ident.New("inbox"), OrgID: t.OrgID, Kind: "escalation", TaskID: t.ID, AgentID: t.AgentID, Category: "safe",
		Arguments: json.RawMessage("{}"), Binding: json.RawMessage("{}"), Why: cause,
		Preview: said("the task stopped and needs a person", code) + ". Retry it, if needed with more memory, on another node or with another model, or close it.",
	})
	if err != nil {
		return fmt.Errorf("store that %s is escalated: %w", t.ID, err)
	}
	return tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.TaskEscalated, Payload: map[string]any{
		"item_id": item.ID, "cause": cause, "error_code": code, "failures": t.Failures, "worker_losses": t.WorkerLosses, "options": options,
	}})
}

// dueBatch is how many tasks one sweep of the timers handles.
const dueBatch = 500

// Due queues the tasks whose timer has run out and returns how many there were. Any
// number of hubs may call it at once.
func (s *Service) Due(ctx context.Context) (int, error) {
	due, err := s.cfg.Store.DueTasks(ctx, dueBatch)
	if err != nil {
		return 0, fmt.Errorf("find due tasks: %w", err)
	}
	queued := 0
	for _, row := range due {
		if err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			t, err := tx.LockDueTask(ctx, db.LockDueTaskParams{OrgID: row.OrgID, ID: row.ID})
			if store.IsNotFound(err) {
				return nil // moved by now
			}
			if err != nil {
				return fmt.Errorf("lock task %s: %w", row.ID, err)
			}
			tx.AfterCommit(func() { queued++; s.cfg.Recorder.Publish(change.QueueChanged{OrgID: t.OrgID}) })
			_, err = Move(ctx, tx, t, Queued, "its time has come", event.Hub)
			return err
		}); err != nil {
			return queued, err
		}
	}
	return queued, nil
}
