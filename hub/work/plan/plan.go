// Package plan stores the plans of tasks: the agent sets its plan with update_plan, and
// people change it in place. Set stores the agent's, and Edit a person's change.
//
// Each change has a revision. A person's change is made to the revision that they saw, and
// refused if there is a newer one. The agent is told of it by a message, which it gets with
// its next turn like any other. An update that the agent makes before it was told is refused
// with what was changed, so that nobody's change is lost.
package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/plantree"
)

const (
	// maxItems is how many items a plan has.
	maxItems = 100
	// maxChanges bounds what is kept of what people changed, in bytes.
	maxChanges = 8 << 10
)

// Service changes plans.
type Service struct {
	Store    *store.Store
	Recorder *event.Recorder
}

// Plan is the plan of a task.
type Plan struct {
	Row      db.TaskPlan
	Items    []plantree.Item
	Criteria []string
	Risks    []string
}

func read(row db.TaskPlan) (Plan, error) {
	p := Plan{Row: row}
	for _, part := range []struct {
		data json.RawMessage
		into any
	}{{row.Items, &p.Items}, {row.Criteria, &p.Criteria}, {row.Risks, &p.Risks}} {
		if err := json.Unmarshal(part.data, part.into); err != nil {
			return p, fmt.Errorf("read the plan of task %s: %w", row.TaskID, err)
		}
	}
	return p, nil
}

// Get returns the plan of a task; with revision 0 if there is none.
func (s *Service) Get(ctx context.Context, orgID, taskID string) (Plan, error) {
	return Load(ctx, s.Store.Queries, orgID, taskID)
}

// Load returns the plan of a task with the queries of a transaction; with revision 0 if there is
// none.
func Load(ctx context.Context, q *db.Queries, orgID, taskID string) (Plan, error) {
	row, err := q.GetTaskPlan(ctx, db.GetTaskPlanParams{OrgID: orgID, TaskID: taskID})
	if store.IsNotFound(err) {
		return Plan{Row: db.TaskPlan{OrgID: orgID, TaskID: taskID}}, nil
	}
	if err != nil {
		return Plan{}, fmt.Errorf("load the plan of task %s: %w", taskID, err)
	}
	return read(row)
}

// Set stores the plan that an agent sets in a turn, in a transaction that has locked the
// task's row. It returns why the agent may not: people have changed the plan, and it was not
// told before the turn.
func Set(ctx context.Context, tx *event.Tx, t db.Task, turn int32, arguments map[string]any) (*fault.Error, error) {
	data, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("encode a plan: %w", err)
	}
	var given struct {
		Items           []plantree.Item
		SuccessCriteria []string `json:"success_criteria"`
		Risks           []string
	}
	if err := json.Unmarshal(data, &given); err != nil {
		return nil, fmt.Errorf("read a plan: %w", err)
	}
	p := Plan{Items: given.Items, Criteria: given.SuccessCriteria, Risks: given.Risks}
	if err := plantree.Check(p.Items); err != nil {
		return fault.New(fault.Invalid, "%v", err).WithCode(fault.InvalidParameters).WithFix("correct the plan and send all of it again"), nil
	}
	now, err := tx.GetTaskPlanToChange(ctx, db.GetTaskPlanToChangeParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil && !store.IsNotFound(err) {
		return nil, fmt.Errorf("load the plan of task %s: %w", t.ID, err)
	}
	if is := now.TaskPlan; err == nil && is.Changes != "" && (now.ToldAfter == nil || *now.ToldAfter >= turn) {
		if err := tx.TellTaskPlan(ctx, db.TellTaskPlanParams{OrgID: t.OrgID, TaskID: t.ID, ToldTurn: turn}); err != nil {
			return nil, fmt.Errorf("store that task %s was told: %w", t.ID, err)
		}
		stored, err := read(is)
		if err != nil {
			return nil, err
		}
		return fault.New(fault.Precondition, "your plan was changed while you made this call, so it was not set: %s\nThe plan is now, in revision %d:\n%s", is.Changes, is.Revision, Text(stored.Items)).
			WithCode(fault.ToolFailed).WithFix("keep these changes, and send the whole plan again"), nil
	}
	_, err = put(ctx, tx, t, p, t.AgentID, "", nil)
	return nil, err
}

// put stores a plan as the next revision.
func put(ctx context.Context, tx *event.Tx, t db.Task, p Plan, by, changes string, messageID *string) (db.TaskPlan, error) {
	params := db.SetTaskPlanParams{OrgID: t.OrgID, TaskID: t.ID, ChangedBy: by, Changes: changes, MessageID: messageID}
	for i := range p.Items {
		p.Items[i].Title = tx.Redact(t.OrgID).String(p.Items[i].Title)
	}
	for _, part := range []struct {
		into *json.RawMessage
		of   any
	}{{&params.Items, p.Items}, {&params.Criteria, masked(tx, t, p.Criteria)}, {&params.Risks, masked(tx, t, p.Risks)}} {
		data, err := json.Marshal(part.of)
		if err != nil {
			return db.TaskPlan{}, fmt.Errorf("encode the plan of task %s: %w", t.ID, err)
		}
		*part.into = data
	}
	row, err := tx.SetTaskPlan(ctx, params)
	if err != nil {
		return row, fmt.Errorf("store the plan of task %s: %w", t.ID, err)
	}
	return row, nil
}

func masked(tx *event.Tx, t db.Task, texts []string) []string {
	out := make([]string, len(texts))
	for i, one := range texts {
		out[i] = tx.Redact(t.OrgID).String(one)
	}
	return out
}

// Change is a person's change of a plan's items. It returns the items and what it did, in
// words.
type Change func(items []plantree.Item) (changed []plantree.Item, what string, err error)

// Edit makes a person's change to a revision of the plan of a task.
func (s *Service) Edit(ctx context.Context, orgID, taskID string, revision int32, change Change, by event.Actor) (Plan, error) {
	var out Plan
	err := s.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: taskID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", taskID, err)
		}
		out, err = EditIn(ctx, tx, t, revision, change, by)
		return err
	})
	return out, err
}

// EditIn is Edit in a transaction that has locked the task's row.
func EditIn(ctx context.Context, tx *event.Tx, t db.Task, revision int32, change Change, by event.Actor) (out Plan, err error) {
	if state := task.State(t.State); state.Final() {
		return out, fault.New(fault.Precondition, "task %s has ended (%s): its plan stays as it is", t.ID, state).WithObject(t.ID).
			WithFix("start another run: deckhand task retry %s", t.ID)
	}
	p, err := Load(ctx, tx.Queries, t.OrgID, t.ID)
	if err != nil {
		return out, err
	}
	if p.Row.Revision != revision {
		return out, fault.New(fault.Aborted, "revision: the plan is at revision %d, changed by %s, and yours is %d", p.Row.Revision, p.Row.ChangedBy, revision).WithObject(t.ID).
			WithFix("look at it and make the change again: deckhand task plan show %s", t.ID)
	}
	before := p.Row.Items
	items, what, err := change(slices.Clone(p.Items))
	if err != nil {
		return out, err
	}
	if len(items) > maxItems {
		return out, tooMany(strconv.Itoa(len(items)))
	}
	if err := plantree.Check(items); err != nil {
		return out, fault.New(fault.Invalid, "%v", err).WithFix("correct the ids of parents and dependencies")
	}
	p.Items = items
	what = tx.Redact(t.OrgID).String(by.ID + " " + what)
	changes := what
	if p.Row.Changes != "" {
		changes = p.Row.Changes + "; " + what
	}
	if len(changes) > maxChanges {
		changes = "several changes, the last of them: " + what
	}
	said, _, err := message.Say(ctx, tx, t, fmt.Sprintf("Your plan was changed: %s.\nIt is now, in revision %d:\n%s\nWork by it, and keep these changes when you send update_plan.", what, revision+1, Text(items)), "", by, map[string]any{"plan_revision": revision + 1})
	if err != nil {
		return out, err
	}
	row, err := put(ctx, tx, t, p, by.ID, changes, &said.ID)
	if err != nil {
		return out, err
	}
	if out, err = read(row); err != nil {
		return out, err
	}
	if err := tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.PlanUpdated, Payload: map[string]any{
		"items": out.Items, "success_criteria": out.Criteria, "risks": out.Risks, "progress": plantree.Progress(out.Items),
		"revision": out.Row.Revision, "by": by.ID, "change": what,
	}}); err != nil {
		return out, err
	}
	return out, audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: by, Action: "task.plan_changed", ObjectKind: "task", ObjectID: t.ID, Reason: what,
		Before: map[string]any{"revision": revision, "items": string(before)}, After: map[string]any{"revision": out.Row.Revision, "items": string(out.Row.Items)},
	})
}

// Text returns a plan as an indented list.
func Text(items []plantree.Item) string {
	var out strings.Builder
	var below func(parent string, depth int)
	below = func(parent string, depth int) {
		for _, i := range items {
			if i.Parent != parent {
				continue
			}
			fmt.Fprintf(&out, "%s- [%s] %s: %s", strings.Repeat("  ", depth), i.Status, i.ID, i.Title)
			if len(i.DependsOn) > 0 {
				fmt.Fprintf(&out, " (after %s)", strings.Join(i.DependsOn, ", "))
			}
			out.WriteByte('\n')
			below(i.ID, depth+1)
		}
	}
	below("", 0)
	return strings.TrimSuffix(out.String(), "\n")
}
