package attempt

import (
	"context"
	"fmt"
	"math"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// ResumeState is the state from which a run continues.
type ResumeState struct {
	Turns    []*deckhandv1.Turn
	Steps    []db.Step
	Messages []db.TaskMessage
	// Checkpoint is the newest one; nil for none.
	Checkpoint *db.Checkpoint
}

// Past returns the state that earlier attempts left. A task that was resumed from a
// checkpoint of another has the other's turns and steps up to there as its own first
// ones.
func (r *Reports) Past(ctx context.Context, t db.Task) (ResumeState, error) {
	s := r.cfg.Store
	var past ResumeState
	newest, err := s.NewestCheckpoint(ctx, db.NewestCheckpointParams{OrgID: t.OrgID, TaskID: t.ID})
	switch {
	case err == nil:
		past.Checkpoint = &newest
	case !store.IsNotFound(err):
		return past, fmt.Errorf("load checkpoint of %s: %w", t.ID, err)
	}
	// From the task back to the first of those that it was resumed from.
	for upTo, turnsUpTo := int32(math.MaxInt32), int32(math.MaxInt32); ; {
		if err := r.prepend(ctx, &past, t, upTo, turnsUpTo); err != nil {
			return past, err
		}
		if t.ResumedAt == 0 {
			return past, nil
		}
		upTo, turnsUpTo = min(upTo, t.ResumedAt), min(turnsUpTo, t.ResumedAt)
		if t.ResumedTurn && turnsUpTo == t.ResumedAt && upTo == t.ResumedAt {
			turnsUpTo++ // chosen by the origin; its calls are made here
		}
		row, err := s.GetTask(ctx, db.GetTaskParams{OrgID: t.OrgID, ID: *t.OriginID})
		if err != nil {
			return past, fmt.Errorf("load task %s, from which %s goes on: %w", *t.OriginID, t.ID, err)
		}
		t = row.Task
	}
}

// prepend puts what a task has up to a turn before what is there; its turns up to turnsUpTo.
func (r *Reports) prepend(ctx context.Context, past *ResumeState, t db.Task, upTo, turnsUpTo int32) error {
	s := r.cfg.Store
	rows, err := s.ListTurns(ctx, db.ListTurnsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("load turns of %s: %w", t.ID, err)
	}
	var turns []*deckhandv1.Turn
	for _, row := range rows {
		if row.Turn > turnsUpTo {
			break
		}
		turn, err := r.Original(row)
		if err != nil {
			return err
		}
		turns = append(turns, turn)
	}
	steps, err := s.StepsUpTo(ctx, db.StepsUpToParams{OrgID: t.OrgID, TaskID: t.ID, UpTo: upTo})
	if err != nil {
		return fmt.Errorf("load steps of %s: %w", t.ID, err)
	}
	// Messages sent after the turn that a task was resumed from are not part of its
	// history.
	messages, err := s.BoundMessages(ctx, db.BoundMessagesParams{OrgID: t.OrgID, TaskID: t.ID, UpTo: upTo})
	if err != nil {
		return fmt.Errorf("load messages to %s: %w", t.ID, err)
	}
	past.Turns, past.Steps, past.Messages = append(turns, past.Turns...), append(steps, past.Steps...), append(messages, past.Messages...)
	return nil
}
