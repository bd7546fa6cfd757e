package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A task depends only on tasks that existed before it, so there are no cycles.

// lockDependencies locks the tasks that a new one is to wait for, so that none
// ends unseen before the new one is stored.
func lockDependencies(ctx context.Context, tx *event.Tx, orgID string, ids []string) ([]db.Task, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	tasks, err := tx.LockTasks(ctx, db.LockTasksParams{OrgID: orgID, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("lock the tasks to wait for: %w", err)
	}
	for _, id := range ids {
		i := slices.IndexFunc(tasks, func(t db.Task) bool { return t.ID == id })
		if i < 0 {
			return nil, fault.New(fault.NotFound, "there is no task %q to wait for", id).WithObject(id)
		}
		if st := State(tasks[i].State); st.Final() && st != Succeeded {
			return nil, fault.New(fault.Precondition, "task %s, which the new one is to wait for, is %s and will not succeed", id, st).
				WithFix("retry that one first, or wait for another").WithObject(id)
		}
	}
	return tasks, nil
}

// waitsFor returns what a task waits for before it can be queued; empty when it
// can.
func waitsFor(after []db.Task, to Assignee) string {
	var open []db.Task
	for _, t := range after {
		if State(t.State) != Succeeded {
			open = append(open, t)
		}
	}
	switch {
	case len(open) == 1:
		return fmt.Sprintf("waits for task %s, which is %s, to succeed", open[0].ID, open[0].State)
	case len(open) > 1:
		return fmt.Sprintf("waits for %d tasks to succeed, the first is %s, which is %s", len(open), open[0].ID, open[0].State)
	case to.Human != "":
		return fmt.Sprintf("waits for @human:%s to do it; then: deckhand task complete, or hand it on with: deckhand task assign", to.Human)
	case to.AgentID == "":
		return "waits to be assigned; deckhand task assign TASK @agent:NAME or @human:NAME"
	}
	return ""
}

// storeDependencies notes what a new task waits for.
func storeDependencies(ctx context.Context, tx *event.Tx, t db.Task, after []db.Task) error {
	var open []string
	for _, dep := range after {
		if err := tx.CreateDependency(ctx, db.CreateDependencyParams{TaskID: t.ID, DependsOn: dep.ID, OrgID: t.OrgID}); err != nil {
			return fmt.Errorf("store that %s waits for %s: %w", t.ID, dep.ID, err)
		}
		if State(dep.State) != Succeeded {
			open = append(open, dep.ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return tx.CountDependent(ctx, db.CountDependentParams{OrgID: t.OrgID, Ids: open})
}

// settleDependents handles the tasks that depend on a task that has ended: they are
// queued if nothing else blocks them, and cancelled if the task did not succeed.
func settleDependents(ctx context.Context, tx *event.Tx, ended db.Task) error {
	ids, err := tx.Dependents(ctx, db.DependentsParams{OrgID: ended.OrgID, DependsOn: ended.ID})
	if err != nil {
		return fmt.Errorf("find what waits for %s: %w", ended.ID, err)
	}
	for _, id := range ids {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: ended.OrgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", id, err)
		}
		if State(t.State) != Pending {
			continue
		}
		if State(ended.State) != Succeeded {
			_, err = Move(ctx, tx, t, Cancelled, fmt.Sprintf(
				"task %s, which it waited for, is %s: see why, then submit both again", ended.ID, ended.State), event.Hub)
		} else {
			err = settle(ctx, tx, t, event.Hub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle queues a pending task if nothing blocks it, and otherwise updates its reason.
func settle(ctx context.Context, tx *event.Tx, t db.Task, by event.Actor) error {
	rows, err := tx.Dependencies(ctx, db.DependenciesParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("load what %s waits for: %w", t.ID, err)
	}
	after := make([]db.Task, len(rows))
	for i, row := range rows {
		after[i] = db.Task{ID: row.ID, State: row.State}
	}
	why := waitsFor(after, Assignee{AgentID: t.AgentID, Human: t.Assignee})
	if why == "" {
		_, err := Move(ctx, tx, t, Queued, "what it waited for is done", by)
		return err
	}
	if why == t.Reason {
		return nil
	}
	return tx.SetPendingReason(ctx, db.SetPendingReasonParams{OrgID: t.OrgID, ID: t.ID, Reason: why})
}

// Dependencies returns the tasks that a task was made to wait for.
func (s *Service) Dependencies(ctx context.Context, orgID, id string) ([]db.DependenciesRow, error) {
	return s.cfg.Store.Dependencies(ctx, db.DependenciesParams{OrgID: orgID, TaskID: id})
}
