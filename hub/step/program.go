package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Work is what a program in the jail of a task wants a subtask to do.
type Work struct {
	// Agent is who is to do it, by name; empty for the task's own agent.
	Agent                string
	Title, Goal, Context string
	// Key makes a repeated request harmless; unique in the task, empty for none.
	Key string
}

// Programs makes the calls of programs in jails that are decided like steps.
type Programs struct{ *Steps }

// SubmitSubtask creates a subtask for a program in the jail of a task, in the background. It is
// decided as if the agent called create_subtask, or delegate: by its persona, its policies and
// the limits of its lineage. What a person would be asked about is refused, as nobody waits for
// the answer.
func (s Programs) SubmitSubtask(ctx context.Context, orgID, taskID string, w Work, by event.Actor) (row db.GetTaskRow, err error) {
	found, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: taskID})
	if err != nil {
		return row, fmt.Errorf("load task %s: %w", taskID, err)
	}
	name, arguments := tool.CreateSubtask, map[string]any{"goal": w.Goal, "background": true}
	for key, text := range map[string]string{"title": w.Title, "context": w.Context} {
		if text != "" {
			arguments[key] = text
		}
	}
	if w.Agent != "" && w.Agent != found.AgentName {
		name, arguments["agent"] = tool.Delegate, w.Agent
	}
	work, err := tool.WorkOf(name, arguments)
	if err != nil {
		return row, err
	}
	if w.Key != "" {
		work.Key = taskID + "/" + w.Key
		// What was permitted once is returned again, also when it would be refused now.
		if row, made, err := submitted(ctx, s.cfg.Store.Queries, found, w, work.Key); made || err != nil {
			return row, err
		}
	}
	if err := s.permitSubtask(ctx, found.Task, name, arguments); err != nil {
		return row, err
	}
	request, err := s.cfg.Subtasks.Prepare(ctx, found.Task, "", work)
	if err != nil {
		return row, err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: taskID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", taskID, err)
		}
		if task.State(t.State).Final() {
			return fault.New(fault.Precondition, "task %s has ended (%s)", taskID, t.State).WithObject(taskID)
		}
		if work.Key != "" {
			var made bool
			if row, made, err = submitted(ctx, tx.Queries, found, w, work.Key); made || err != nil {
				return err
			}
		}
		made, refused, err := s.cfg.Subtasks.Make(ctx, tx, t, db.Step{Tool: name, Turn: t.TurnCount}, request)
		if err != nil {
			return err
		}
		if refused != nil {
			return refused
		}
		row = made
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "task.submitted", ObjectKind: "task", ObjectID: row.Task.ID,
			After: map[string]any{"parent_id": taskID, "agent": row.AgentName, "goal": row.Task.Goal},
		})
	})
	return row, err
}

// submitted returns the subtask that a program of a task has submitted with a key before, and
// whether there is one. Another request with the same key is an error.
func submitted(ctx context.Context, q *db.Queries, parent db.GetTaskRow, w Work, key string) (row db.GetTaskRow, made bool, err error) {
	first, err := q.TaskByIdempotencyKey(ctx, db.TaskByIdempotencyKeyParams{OrgID: parent.Task.OrgID, IdempotencyKey: &key})
	if store.IsNotFound(err) {
		return row, false, nil
	}
	if err == nil {
		row, err = q.GetTask(ctx, db.GetTaskParams{OrgID: parent.Task.OrgID, ID: first.ID})
	}
	if err != nil {
		return row, false, fmt.Errorf("find task by idempotency key: %w", err)
	}
	if store.Text(row.Task.ParentID) != parent.Task.ID || row.Task.Goal != w.Goal ||
		w.Agent != row.Task.AgentID && row.AgentName != cmp.Or(w.Agent, parent.AgentName) {
		return row, false, fault.New(fault.Exists, "idempotency_key %q was used for task %s, which has another agent or goal", w.Key, first.ID).WithObject(first.ID).
			WithFix("use a key of its own for each subtask")
	}
	return row, true, nil
}

// permitSubtask refuses a subtask that the agent itself could not create without asking anybody.
func (s Programs) permitSubtask(ctx context.Context, t db.Task, name string, arguments map[string]any) error {
	encoded, err := json.Marshal(arguments)
	if err != nil {
		return fmt.Errorf("encode a subtask of %s: %w", t.ID, err)
	}
	_, _, judged := s.judge(ctx, s.cfg.Store.Queries, free(), t, Proposal{Tool: name, ArgumentsJSON: string(encoded), Turn: t.TurnCount})
	why := judged.ask
	switch {
	case judged.denied != nil:
		return judged.denied
	case judged.unmade != nil:
		return judged.unmade
	case judged.deferred:
		why = "the task is in review mode"
	case judged.counted:
		why = "a policy limits how often " + name + " is called"
	case why == "":
		return nil
	}
	return fault.New(fault.Denied, "a program may not create this subtask by itself: %s", why).WithCode(fault.PermissionDenied).
		WithFix("have the agent call %s", name)
}
