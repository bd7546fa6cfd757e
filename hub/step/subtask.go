package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/subtask"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A call of a tool that creates a subtask waits for that task; when the task has ended,
// the step is granted once more and concluded. A handoff and a subtask in the background are
// concluded at once.

// giving returns the subtask request of a step whose tool creates tasks, or nil if the
// tool creates none or the step's task exists already.
func (s *Steps) giving(ctx context.Context, step db.Step) (*subtask.Request, error) {
	if !slices.Contains(tool.Giving, step.Tool) || State(step.State) != Granted {
		return nil, nil
	}
	_, arguments, err := s.read(step)
	if err != nil {
		return nil, err
	}
	work, err := tool.WorkOf(step.Tool, arguments)
	if err != nil {
		return nil, fmt.Errorf("read the subtask that step %s requests: %w", step.ID, err)
	}
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: step.OrgID, ID: step.TaskID})
	if err != nil {
		return nil, fmt.Errorf("load task %s: %w", step.TaskID, err)
	}
	return s.cfg.Subtasks.Prepare(ctx, row.Task, step.ID, work)
}

// createSubtask creates the task that a step requests, or concludes the step with the
// reason why it cannot. The caller's task row is locked.
func (s *Steps) createSubtask(ctx context.Context, tx *event.Tx, t db.Task, stepID string, r *subtask.Request) (db.Step, error) {
	step, err := tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: stepID})
	if err != nil || State(step.State) != Granted {
		return step, err
	}
	record := s.cfg.Tools.Get(step.Tool)
	call, err := s.call(ctx, t, step, record)
	if err != nil {
		return step, err
	}
	ended, found := false, false
	if record.Spawns {
		if call.Given, ended, found, err = s.cfg.Subtasks.ChildOf(ctx, tx.Queries, step); err != nil {
			return step, err
		}
	}
	var refused *fault.Error
	if !found {
		var row db.GetTaskRow
		if row, refused, err = s.cfg.Subtasks.Make(ctx, tx, t, step, r); err != nil {
			return step, err
		}
		call.Given = tool.ChildTask{TaskID: row.Task.ID, Agent: row.AgentName}
	}
	if record.Spawns && !r.Background() && refused == nil && !ended {
		return s.move(ctx, tx, step, db.ResolveStepParams{
			State: string(Waiting), DecisionReason: fmt.Sprintf("waits for task %s of agent %s", call.Given.TaskID, call.Given.Agent),
		})
	}
	step, started, err := s.begin(ctx, tx, t, step, Granted)
	if err != nil || !started {
		return step, err
	}
	result := tool.Result{Failed: true}
	if refused != nil {
		result.Code, result.Observation = refused.Code, "error "+string(refused.Code)+": "+refused.Explanation()
	} else if result, err = record.Run(ctx, call); err != nil {
		return step, fmt.Errorf("run step %s: %w", step.ID, err)
	}
	return s.endIn(ctx, tx, t, step, record, result)
}
