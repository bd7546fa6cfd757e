package task

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// attemptOutcomes maps the state for which a task leaves starting or running to the
// outcome of its attempt; for every other state the attempt is finished.
var attemptOutcomes = map[State]string{Cancelled: "cancelled"}

// Move changes the state of a task whose row the transaction has locked. It ends the
// lease and attempt if the new state has none, and appends the event, and the audit entry
// if a person moves it. Every state except running needs a reason that a person can act
// on.
func Move(ctx context.Context, tx *event.Tx, t db.Task, to State, reason string, actor event.Actor) (db.Task, error) {
	outcome := attemptOutcomes[to]
	if outcome == "" {
		outcome = "finished"
	}
	moved, err := move(ctx, tx, t, to, reason, outcome, nil, actor)
	return moved.Task, err
}

// Result is what a run left.
type Result struct {
	Summary, ErrorCode, ErrorMessage string
	// Done reports that the goal was reached: progress is 1.
	Done bool
	// Iteration is the last finished iteration, 0 for none; Progress is 0 to 1.
	Iteration int32
	Progress  float64
	// Phases are the milliseconds of its phases; nil if they are not known.
	Phases []int64
}

// End is Move for the end of an agent's run, and stores the run's result. It reports
// whether steps of the task have not ended.
func End(ctx context.Context, tx *event.Tx, t db.Task, to State, reason string, r Result, actor event.Actor) (open bool, err error) {
	moved, err := move(ctx, tx, t, to, reason, "finished", &r, actor)
	return moved.HasOpenSteps, err
}

// Run moves a task that the transaction has claimed to running. The row is not read back,
// to save a round trip.
func Run(tx *event.Tx, t db.Task, actor event.Actor) (db.Task, error) {
	if from := State(t.State); !from.May(Running) {
		return t, refuse(t.ID, from, Running)
	}
	tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
		return q.RunTask(ctx, db.RunTaskParams{OrgID: t.OrgID, ID: t.ID})
	})
	moved := t
	moved.State, moved.Reason = string(Running), ""
	return moved, tell(tx, t, Running, "", actor)
}

// Requeue puts a leased task back into the queue; outcome is that of the attempt:
// "released" or "lost".
func Requeue(ctx context.Context, tx *event.Tx, t db.Task, reason, outcome string, actor event.Actor) (db.Task, error) {
	moved, err := move(ctx, tx, t, Queued, reason, outcome, nil, actor)
	return moved.Task, err
}

func move(ctx context.Context, tx *event.Tx, t db.Task, to State, reason, outcome string, r *Result, actor event.Actor) (db.MoveTaskRow, error) {
	from, as := State(t.State), db.MoveTaskRow{Task: t}
	if !from.May(to) {
		return as, refuse(t.ID, from, to)
	}
	params := db.MoveTaskParams{OrgID: t.OrgID, ID: t.ID, State: string(to), Reason: reason}
	if r != nil {
		params.Summary, params.ErrorCode, params.ErrorMessage = &r.Summary, &r.ErrorCode, &r.ErrorMessage
		if r.Iteration > 0 {
			params.Iteration, params.Progress, params.Phases = &r.Iteration, &r.Progress, r.Phases
		}
		if done := 1.0; r.Done {
			params.Progress = &done
		}
	}
	row, err := tx.MoveTask(ctx, params)
	moved := row.Task
	if err != nil {
		return as, fmt.Errorf("move task %s from %s to %s: %w", t.ID, from, to, err)
	}
	if to.Final() {
		tx.Publish(change.TaskEnded{Task: moved})
		if moved.Dependents > 0 {
			if err := settleDependents(ctx, tx, moved); err != nil {
				return as, err
			}
		}
	}
	publishTree(tx, moved)
	if from.Parked() != to.Parked() {
		tx.Publish(change.TaskWaitChanged{Task: moved})
	}
	if t.LeaseHash != nil && moved.LeaseHash == nil {
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
			return q.EndAttempt(ctx, db.EndAttemptParams{OrgID: t.OrgID, TaskID: t.ID, Attempt: t.Attempt, Outcome: outcome})
		})
	}
	return row, tell(tx, t, to, reason, actor)
}

// publishTree announces that a task moved, if it has a parent or subtasks.
func publishTree(tx *event.Tx, t db.Task) {
	if t.ParentID != nil || t.Subtasks > 0 {
		tx.Publish(change.TaskTreeChanged{Task: t})
	}
}
