package task

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// CheckpointTime is for how long a checkpoint is kept that nobody named or kept, unless its
// organisation has a time of its own.
const CheckpointTime = 24 * time.Hour

// MaxCheckpointTime is for how long a checkpoint may be kept.
const MaxCheckpointTime = 7 * 24 * time.Hour

// Checkpoints returns a page of a task's, the newest first, and the next page's token.
func (s *Service) Checkpoints(ctx context.Context, orgID, id, page string, size int32) ([]db.ListCheckpointsRow, string, error) {
	before, err := store.ParseNumberToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.cfg.Store.ListCheckpoints(ctx, db.ListCheckpointsParams{OrgID: orgID, TaskID: id, Before: before, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list checkpoints of %s: %w", id, err)
	}
	rows, next := store.Page(rows, size, func(last db.ListCheckpointsRow) string { return store.NumberToken(last.Place) })
	return rows, next, nil
}

// NamedCheckpoint returns a task's newest checkpoint of a name: one that the agent named, or
// the point before a call, which has the call's step and the iteration before it. An error of
// the store says that there is none.
func NamedCheckpoint(ctx context.Context, q *db.Queries, orgID, id, name string) (db.CheckpointNamedRow, error) {
	return q.CheckpointNamed(ctx, db.CheckpointNamedParams{OrgID: orgID, TaskID: id, Name: name, BeforeRisk: persona.BeforeRisk, Prefix: persona.BeforeStep})
}

// CheckpointNamed returns the iteration of a task's newest checkpoint of a name. The one of a
// point before a call is that of the iteration before, where its conversation goes on.
func (s *Service) CheckpointNamed(ctx context.Context, orgID, id, name string) (int32, error) {
	named, err := NamedCheckpoint(ctx, s.cfg.Store.Queries, orgID, id, name)
	if err == nil && named.Iteration == 0 {
		return 0, fault.New(fault.Precondition, "%q is in the first turn of task %s, before which there is no conversation to go on with", name, id).
			WithObject(id).WithFix("begin anew: deckhand task retry %s", id)
	}
	if store.IsNotFound(err) {
		return 0, fault.New(fault.NotFound, "task %s has no checkpoint named %q", id, name).WithCode(fault.CheckpointNotFound).
			WithObject(id).WithFix("it may have expired; see those there are: deckhand task checkpoints %s", id)
	}
	if err != nil {
		return 0, fmt.Errorf("find checkpoint %q of %s: %w", name, id, err)
	}
	return named.Iteration, nil
}

// Point is a point that a task can be resumed from.
type Point struct {
	// Iteration is the one after whose end it is; 0 for the newest.
	Iteration int32
	// Turn reports that the turn after that is chosen, and none of its calls was made.
	Turn bool
}

// selectTool is the phase of a checkpoint that is not the end of an iteration.
const selectTool = "select_tool"

// CheckpointAt returns the point of a task's checkpoint, by its id.
func CheckpointAt(ctx context.Context, q *db.Queries, orgID, id, checkpoint string) (Point, error) {
	c, err := q.CheckpointByID(ctx, db.CheckpointByIDParams{OrgID: orgID, TaskID: id, ID: checkpoint})
	if store.IsNotFound(err) {
		return Point{}, noCheckpoint(id, checkpoint)
	}
	if err != nil {
		return Point{}, fmt.Errorf("find checkpoint %s of %s: %w", checkpoint, id, err)
	}
	return Point{Iteration: c.Iteration, Turn: c.Phase == selectTool}, nil
}

func noCheckpoint(id, which string) *fault.Error {
	return fault.New(fault.NotFound, "task %s has no checkpoint %s", id, which).WithCode(fault.CheckpointNotFound).
		WithObject(id).WithFix("it may have expired; see those there are: deckhand task checkpoints %s", id)
}

// KeepCheckpoint keeps a checkpoint for a time from now; 0 for MaxCheckpointTime. One of a phase
// is kept together with that of the iteration before it, which has its state.
func (s *Service) KeepCheckpoint(ctx context.Context, orgID, id string, at Point, keepFor time.Duration, by event.Actor) (kept db.ListCheckpointsRow, err error) {
	if keepFor <= 0 || keepFor > MaxCheckpointTime {
		keepFor = MaxCheckpointTime
	}
	_, err = s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		c, err := tx.GetCheckpoint(ctx, db.GetCheckpointParams{OrgID: orgID, TaskID: id, Iteration: at.Iteration})
		if err == nil {
			var row db.KeepCheckpointRow
			row, err = tx.KeepCheckpoint(ctx, db.KeepCheckpointParams{
				OrgID: orgID, TaskID: id, Iteration: c.Iteration, Reason: "manual", KeepFor: keepFor,
			})
			kept = listed(row)
		}
		if err == nil && at.Turn {
			var row db.KeepPhaseCheckpointRow
			row, err = tx.KeepPhaseCheckpoint(ctx, db.KeepPhaseCheckpointParams{OrgID: orgID, TaskID: id, Iteration: c.Iteration, KeepFor: keepFor})
			kept = listed(db.KeepCheckpointRow(row))
		}
		if store.IsNotFound(err) {
			return noCheckpoint(id, fmt.Sprint(at.Iteration))
		}
		if err != nil {
			return fmt.Errorf("keep checkpoint %d of %s: %w", at.Iteration, id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "checkpoint.kept", ObjectKind: "task", ObjectID: id,
			After: map[string]any{"checkpoint_id": kept.ID, "iteration": kept.Iteration, "phase": kept.Phase, "expires_at": kept.ExpiresAt.UTC().Format(time.RFC3339)},
		})
	})
	return kept, err
}

func listed(row db.KeepCheckpointRow) db.ListCheckpointsRow {
	return db.ListCheckpointsRow{
		ID: row.ID, Iteration: row.Iteration, Phase: row.Phase, Name: row.Name, Reason: row.Reason, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, Browser: []byte("{}"),
	}
}
