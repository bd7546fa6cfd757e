package api

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	errorv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/error/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// itemActions are what a person does about an item that keeps a task from going on.
var itemActions = map[inbox.Kind]string{
	inbox.Approval:   "Decide about the call",
	inbox.Question:   "Answer the question",
	inbox.Unknown:    "Say what came of the call",
	inbox.Review:     "Review the work",
	inbox.Escalation: "Decide how it goes on",
	inbox.Limit:      "Raise the limit",
	inbox.Budget:     "Raise the budget",
	inbox.Suspended:  "Resume the agent",
	inbox.Egress:     "Allow the host",
	inbox.Provider:   "Connect the provider",
	inbox.Credential: "Rotate the credential",
}

// detail adds to a task what only GetTask returns of it.
func (h *Tasks) detail(ctx context.Context, m *deckhandv1.Task, t db.Task) (err error) {
	if m.Sources, err = sourcesOf(ctx, h.Store.Queries, t); err != nil {
		return err
	}
	if m.Action, err = action(ctx, h.Store, t, m.GetAgentName()); err != nil {
		return err
	}
	span, err := h.Workspaces.UndoSpan(ctx, t)
	if err != nil {
		return err
	}
	m.UndoUntil, _ = left(span)
	active, err := h.Store.TaskActiveTime(ctx, db.TaskActiveTimeParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("add up the time of task %s: %w", t.ID, err)
	}
	m.ActiveTime = durationpb.New(active)
	m.CurrentStep, err = currentStep(ctx, h, t)
	return err
}

// currentStep returns the call that a task has at the moment; nil for none.
func currentStep(ctx context.Context, h *Tasks, t db.Task) (*deckhandv1.CurrentStep, error) {
	if task.State(t.State).Final() {
		return nil, nil
	}
	row, err := h.Store.CurrentStep(ctx, db.CurrentStepParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the current step of task %s: %w", t.ID, err)
	}
	var arguments map[string]any
	if err := json.Unmarshal(row.Arguments, &arguments); err != nil {
		return nil, fmt.Errorf("read the arguments of step %s: %w", row.ID, err)
	}
	return &deckhandv1.CurrentStep{
		Id: row.ID, Number: row.Number, Tool: row.Tool, State: deckhandv1.StepState(enumValue(deckhandv1.StepState_value, "STEP_STATE_", row.State)), Since: timestamppb.New(row.Since),
		Title: maskOf(ctx, h.Redact).String(tool.Title(row.Tool, arguments)),
	}, nil
}

// action returns where a person can do something about a task that failed or does not go on;
// nil for another one.
func action(ctx context.Context, from *store.Store, t db.Task, agentName string) (*errorv1.Action, error) {
	if task.State(t.State) == task.Succeeded || task.State(t.State) == task.Running {
		return nil, nil
	}
	items, err := from.OpenItemsOfTask(ctx, db.OpenItemsOfTaskParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return nil, fmt.Errorf("load what task %s waits for: %w", t.ID, err)
	}
	if len(items) > 0 {
		return &errorv1.Action{
			Label: itemActions[inbox.Kind(items[0].Kind)], Path: "/inbox?item=" + items[0].ID, Command: "deckhand inbox show " + items[0].ID,
		}, nil
	}
	a, ok := fault.ActionOf(fault.Code(t.ErrorCode), map[string]string{"task": t.ID, "agent": agentName})
	if !ok {
		return nil, nil
	}
	return &errorv1.Action{Label: a.Label, Path: a.Path, Command: a.Command}, nil
}

// sourcesOf returns what an agent says that its result is based on. The arguments of its call
// are stored with secrets masked.
func sourcesOf(ctx context.Context, q *db.Queries, t db.Task) (out []*deckhandv1.TaskSource, err error) {
	if !task.State(t.State).Final() && task.State(t.State) != task.ReviewNeeded {
		return nil, nil
	}
	raw, err := q.NewestCallOf(ctx, db.NewestCallOfParams{OrgID: t.OrgID, TaskID: t.ID, Tool: toolname.CompleteTask})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load how task %s was completed: %w", t.ID, err)
	}
	var said struct {
		Sources []struct{ Kind, Reference, Title string }
	}
	if json.Unmarshal(raw, &said) != nil {
		return nil, nil // it is shown as the call's arguments
	}
	for _, s := range said.Sources {
		out = append(out, &deckhandv1.TaskSource{Kind: s.Kind, Reference: s.Reference, Title: s.Title})
	}
	return out, nil
}

// setApprovals adds to steps of a task the ids of the inbox items about them.
func setApprovals(ctx context.Context, from *store.Store, orgID, taskID string, steps []*deckhandv1.Step) error {
	ids := make([]string, len(steps))
	for i, s := range steps {
		ids[i] = s.GetId()
	}
	rows, err := from.InboxItemsOfSteps(ctx, db.InboxItemsOfStepsParams{OrgID: orgID, TaskID: taskID, StepIds: ids})
	if err != nil {
		return fmt.Errorf("load the inbox items of task %s: %w", taskID, err)
	}
	of := map[string]string{}
	for _, row := range rows {
		of[row.StepID] = row.ID
	}
	for _, s := range steps {
		s.ApprovalId = of[s.GetId()]
	}
	return nil
}
