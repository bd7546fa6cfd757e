package task

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// RetryOptions is how a task is to be run once more.
type RetryOptions struct {
	Override       Override
	IdempotencyKey string
	By             event.Actor
	Role           string
	// Workspace, if set, is called for a task that is resumed from an iteration of
	// origin. It returns the function that stores the restore of its workspace.
	Workspace func(ctx context.Context, origin db.Task, iteration int32) (WithTask, error)
}

// WithTask stores something with a task, in the transaction that makes it; nil
// stores nothing.
type WithTask func(ctx context.Context, tx *event.Tx, t db.Task) error

func (a RetryOptions) check() error { return a.Override.Check() }

// merged returns an override with the fields of a newer one put over it.
func (o Override) merged(by Override) Override {
	if by.MemoryBytes > 0 {
		o.MemoryBytes = by.MemoryBytes
	}
	if by.NodeID != "" {
		o.NodeID = by.NodeID
	}
	if by.Provider != "" {
		o.Provider, o.Model = by.Provider, by.Model
	}
	if by.Mode != "" {
		o.Mode = by.Mode
	}
	o.Limits = o.Limits.merged(by.Limits)
	return o
}

// Retry puts an escalated task back into the queue. For one that has ended it
// submits a new one, with the same goal and inputs, the agent's persona as it
// is now, and the lineage of the first.
func (s *Service) Retry(ctx context.Context, orgID, id string, again RetryOptions) (db.GetTaskRow, error) {
	if err := again.check(); err != nil {
		return db.GetTaskRow{}, err
	}
	row, err := s.Get(ctx, orgID, id)
	if err != nil {
		return row, err
	}
	if State(row.Task.State) == Escalated {
		name, model := again.Override.Runs(row.Provider, row.Model)
		if err := s.usable(ctx, orgID, row.AgentName, name, model); err != nil {
			return row, err
		}
	}
	if !State(row.Task.State).Final() {
		return s.requeueEscalated(ctx, orgID, id, again)
	}
	sub, err := s.repeat(row.Task, again)
	if err != nil {
		return row, err
	}
	inputs, err := s.cfg.Store.TaskInputs(ctx, db.TaskInputsParams{OrgID: orgID, TaskID: id})
	if err != nil {
		return row, fmt.Errorf("load inputs of %s: %w", id, err)
	}
	if len(inputs) < int(row.Task.InputCount) {
		return row, fault.New(fault.Precondition, "%d of the %d files that were given to %s are kept no longer", int(row.Task.InputCount)-len(inputs), row.Task.InputCount, id).
			WithObject(id).WithFix("submit a new task with the files: deckhand run --help")
	}
	for _, in := range inputs {
		sub.Inputs = append(sub.Inputs, Input{Path: in.Path, Content: in.Content})
	}
	sub.With = func(ctx context.Context, tx *event.Tx, t db.Task) error { return copyArtifacts(ctx, tx, id, t) }
	sub.also = func(tx *event.Tx, t db.Task) error { return auditAgain(tx, "task.retried", t, again) }
	return s.Submit(ctx, sub)
}

// MayRun refuses to run a task with a model that its organisation cannot call.
func (s *Service) MayRun(ctx context.Context, orgID, id string, with Override) error {
	if err := with.Check(); err != nil {
		return err
	}
	row, err := s.Get(ctx, orgID, id)
	if err != nil {
		return err
	}
	name, model := with.Runs(row.Provider, row.Model)
	return s.usable(ctx, orgID, row.AgentName, name, model)
}

// copyArtifacts copies the artifacts that another task was promised to a new task.
func copyArtifacts(ctx context.Context, tx *event.Tx, origin string, t db.Task) error {
	rows, err := tx.ArtifactsTo(ctx, db.ArtifactsToParams{OrgID: t.OrgID, ToTaskID: &origin})
	if err != nil {
		return fmt.Errorf("load artifacts of %s: %w", origin, err)
	}
	for _, row := range rows {
		if _, err := tx.CreateArtifactTransfer(ctx, db.CreateArtifactTransferParams{
			ID: ident.New("transfer"), OrgID: t.OrgID, FromTaskID: row.FromTaskID, ToTaskID: &t.ID, FromNodeID: row.FromNodeID,
			FromJailID: row.FromJailID, ToJailID: t.JailID, Folder: row.Folder, Entries: row.Entries, Files: row.Files, Bytes: row.Bytes,
			Shared: row.Shared, CreatedBy: row.CreatedBy,
		}); err != nil {
			return fmt.Errorf("promise the artifacts of %s to %s: %w", origin, t.ID, err)
		}
		if err := tx.CountTaskArtifacts(ctx, db.CountTaskArtifactsParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
			return fmt.Errorf("count the artifacts of %s: %w", t.ID, err)
		}
	}
	return nil
}

// repeat is the submission of a task that has ended.
func (s *Service) repeat(origin db.Task, again RetryOptions) (Submission, error) {
	before, err := OverrideOf(origin)
	if err != nil {
		return Submission{}, fmt.Errorf("task %s: %w", origin.ID, err)
	}
	var said []Message
	if err := json.Unmarshal(origin.Conversation, &said); err != nil {
		return Submission{}, fmt.Errorf("read the conversation of task %s: %w", origin.ID, err)
	}
	return Submission{
		OrgID: origin.OrgID, AgentID: origin.AgentID, Goal: origin.Goal, Title: origin.Title, Priority: origin.Priority,
		IdempotencyKey: again.IdempotencyKey, By: again.By, Role: again.Role, TriggerID: origin.TriggerID,
		Origin: &origin, TaskType: origin.TaskType, Override: before.merged(again.Override), Context: origin.Context, Conversation: said,
	}, nil
}

func auditAgain(tx *event.Tx, action string, t db.Task, again RetryOptions) error {
	return audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: again.By, Action: action, ObjectKind: "task", ObjectID: t.ID,
		After: map[string]any{"origin_id": store.Text(t.OriginID), "resumed_at": t.ResumedAt, "override": string(t.Override)},
	})
}

func (s *Service) requeueEscalated(ctx context.Context, orgID, id string, again RetryOptions) (db.GetTaskRow, error) {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		switch from := State(t.State); from {
		case Escalated:
		case Queued, Starting, Running:
			return nil // a repeated retry
		default:
			return refuse(id, from, Queued).WithFix("only a task that is escalated or has ended is tried again; this one goes on by itself, or with: deckhand task resume %s", id)
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		return TryAgain(ctx, tx, t, again.Override, again.By)
	})
}

// TryAgain puts an escalated task whose row the transaction has locked back into
// the queue.
func TryAgain(ctx context.Context, tx *event.Tx, t db.Task, with Override, by event.Actor) error {
	before, err := OverrideOf(t)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	column, err := before.merged(with).Column()
	if err != nil {
		return err
	}
	if err := tx.SetRetry(ctx, db.SetRetryParams{OrgID: t.OrgID, ID: t.ID, Override: column}); err != nil {
		return fmt.Errorf("set what %s is tried again with: %w", t.ID, err)
	}
	_, err = Move(ctx, tx, t, Queued, "tried again by "+by.ID+"; waits for a worker", by)
	return err
}

// Close ends an escalated or paused task whose row the transaction has locked.
func Close(ctx context.Context, tx *event.Tx, t db.Task, reason string, by event.Actor) error {
	why := said("closed by "+by.ID, reason)
	steps, err := tx.CancelSteps(ctx, db.CancelStepsParams{OrgID: t.OrgID, TaskID: t.ID, Reason: why})
	if err != nil {
		return fmt.Errorf("cancel steps of %s: %w", t.ID, err)
	}
	if err := AuditCancelled(tx, steps, t); err != nil {
		return err
	}
	if _, err := Move(ctx, tx, t, Cancelled, why, by); err != nil {
		return err
	}
	return tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.ExecutionCancelled, Payload: map[string]any{"reason": why}})
}

// CheckpointOf returns a task with its checkpoint of an iteration: 0 is the
// newest.
func (s *Service) CheckpointOf(ctx context.Context, orgID, id string, iteration int32) (db.GetTaskRow, db.Checkpoint, error) {
	row, err := s.Get(ctx, orgID, id)
	if err != nil {
		return row, db.Checkpoint{}, err
	}
	checkpoint, err := s.cfg.Store.GetCheckpoint(ctx, db.GetCheckpointParams{OrgID: orgID, TaskID: id, Iteration: iteration})
	if store.IsNotFound(err) {
		return row, checkpoint, fault.New(fault.NotFound, "task %s has no checkpoint %d", id, iteration).WithCode(fault.CheckpointNotFound).
			WithObject(id).WithFix("it may have expired; see those there are: deckhand task checkpoints %s", id)
	}
	if err != nil {
		return row, checkpoint, fmt.Errorf("load checkpoint %d of %s: %w", iteration, id, err)
	}
	return row, checkpoint, nil
}

// ResumeFrom submits a new task that is resumed from a checkpoint of another; iteration 0
// is the newest. If the point is after a turn was chosen, the new task makes that turn's calls. The
// turns and steps up to there are read from the origin; only the checkpoint is copied. The retry options decide about the workspace.
func (s *Service) ResumeFrom(ctx context.Context, orgID, id string, at Point, text string, again RetryOptions) (db.GetTaskRow, error) {
	if err := again.check(); err != nil {
		return db.GetTaskRow{}, err
	}
	row, checkpoint, err := s.CheckpointOf(ctx, orgID, id, at.Iteration)
	if err != nil {
		return row, err
	}
	if State(row.Task.State) == Succeeded && !at.Turn && checkpoint.Iteration >= row.Task.Iteration && text == "" {
		return row, fault.New(fault.Invalid, "iteration %d is where the agent of task %s ended its run", checkpoint.Iteration, id).
			WithObject(id).WithFix("say what is to be done further with --message, or choose an earlier iteration")
	}
	sub, err := s.repeat(row.Task, again)
	if err != nil {
		return row, err
	}
	sub.resumedAt, sub.resumedTurn = checkpoint.Iteration, at.Turn
	var workspace WithTask
	if again.Workspace != nil {
		if workspace, err = again.Workspace(ctx, row.Task, checkpoint.Iteration); err != nil {
			return row, err
		}
	}
	sub.also = func(tx *event.Tx, t db.Task) error {
		n, err := tx.CopyCheckpoint(ctx, db.CopyCheckpointParams{
			ID: ident.New("ckpt"), TaskID: t.ID, OrgID: orgID, OriginID: id, Iteration: checkpoint.Iteration,
		})
		if err != nil {
			return fmt.Errorf("copy checkpoint %d of %s: %w", checkpoint.Iteration, id, err)
		}
		if n == 0 {
			return fault.New(fault.Aborted, "checkpoint %d of task %s has just expired", checkpoint.Iteration, id).WithCode(fault.CheckpointNotFound)
		}
		if workspace != nil {
			if err := workspace(ctx, tx, t); err != nil {
				return err
			}
		}
		if text != "" {
			if _, _, err := message.Say(ctx, tx, t, text, "", again.By, nil); err != nil {
				return err
			}
		}
		return auditAgain(tx, "task.resumed_from", t, again)
	}
	return s.Submit(ctx, sub)
}
