package step

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/wait"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A call of wait that lasts long waits without a worker, like one that created a subtask:
// package wait grants its step once more when the wait is over.

// park has a granted step wait whose call waits for long and is not over, and reports
// whether it does. The caller's task row is locked.
func (s *Steps) park(ctx context.Context, tx *event.Tx, t db.Task, stepID string) (step db.Step, parked bool, err error) {
	step, err = tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: stepID})
	if err != nil || State(step.State) != Granted || step.NodeID == nil {
		return step, false, err
	}
	record, arguments, err := s.read(step)
	if err != nil || record == nil || !record.Waits {
		return step, false, err
	}
	asked := tool.WaitOf(arguments)
	if asked.For <= tool.LongWait {
		return step, false, nil
	}
	_, err = tx.GetWait(ctx, db.GetWaitParams{OrgID: t.OrgID, StepID: stepID})
	if err == nil {
		return step, false, nil // it has waited
	}
	if !store.IsNotFound(err) {
		return step, false, fmt.Errorf("find what step %s waits for: %w", stepID, err)
	}
	if over, err := s.over(ctx, tx, t, asked); over || err != nil {
		return step, false, err
	}
	row, err := wait.Create(ctx, tx, step, asked)
	if err != nil {
		return step, false, err
	}
	step, err = s.move(ctx, tx, step, db.ResolveStepParams{State: string(Waiting), DecisionReason: "waits " + wait.Until(row)})
	return step, true, err
}

// over reports whether a call has nothing to wait for: its job or subtask has ended, or does not
// exist, as the call's result then says.
func (s *Steps) over(ctx context.Context, tx *event.Tx, t db.Task, asked tool.Wait) (over bool, err error) {
	switch {
	case asked.Task != "":
		_, over, err = s.cfg.Subtasks.Child(ctx, tx.Queries, t, asked.Task)
	case asked.Job != "":
		var j tool.Job
		j, err = jobsOf{tx.Queries, t}.Job(ctx, asked.Job)
		over = j.Ended
	}
	if fault.Is(err, fault.Invalid) {
		return true, nil
	}
	return over, err
}

// waited returns from and until when a step has waited without a worker; zero if it has not.
func (s *Steps) waited(ctx context.Context, step db.Step) (since, until time.Time, err error) {
	row, err := s.cfg.Store.GetWait(ctx, db.GetWaitParams{OrgID: step.OrgID, StepID: step.ID})
	if store.IsNotFound(err) {
		return since, until, nil
	}
	if err != nil {
		return since, until, fmt.Errorf("find what step %s waited for: %w", step.ID, err)
	}
	return row.CreatedAt, row.Until, nil
}
