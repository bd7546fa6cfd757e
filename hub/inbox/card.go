package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Card is what a person is shown beside an item itself, to decide on it: the work that it
// belongs to, the decisions before it, and what came of it.
type Card struct {
	// Goal is that of the task.
	Goal string
	// PlanItem is what the agent works on or comes to next, "" without a plan; PlanDone of
	// PlanItems items are done.
	PlanItem            string
	PlanDone, PlanItems int32
	// Asked is the position of the item among those of its task, from 1.
	Asked int32
	// Approved and Rejected count the decisions within similarSince on calls like this one.
	Approved, Rejected int32
	// ByShape reports that such calls have arguments alike, and not only the same tool.
	ByShape       bool
	LastRejection *Rejection
	// Files are nil for calls of other tools than those for files.
	Files *FileChanges
	// Step is the step of a closed item; nil for an open one and for one of no step.
	Step         *db.Step
	FilesChanged int32
	// Requests are the last requests of the agent to the host of the call, newest first, of
	// RequestsFound in its last tasks.
	Requests      []EarlierRequest
	RequestsFound int32
	// Escalation is nil for other kinds.
	Escalation *EscalationCause
}

// Rejection is a call that a person rejected.
type Rejection struct {
	ItemID, By, Reason string
	At                 time.Time
}

// EscalationCause is why a task does not continue by itself.
type EscalationCause struct {
	Code            string
	Failures        []TaskFailure
	Provider, Model string
	NodeID          string
	// Remedies are what fits the cause, the best first.
	Remedies []string
}

// TaskFailure is one failure of a task.
type TaskFailure struct {
	At            time.Time
	Code, Message string
}

// The remedies of an escalation.
const (
	RemedyRetry  = "retry"
	RemedyMemory = "memory"
	RemedyNode   = "node"
	RemedyModel  = "model"
)

const (
	// similarSince is the period within which decisions on similar calls count.
	similarSince = 30 * 24 * time.Hour
	shownFails   = 3
)

// CardOf returns the Card of an item.
func (s *Service) CardOf(ctx context.Context, item db.InboxItem) (Card, error) {
	var c Card
	if item.TaskID == "" {
		return c, nil // what stopped work of many tasks
	}
	q := s.cfg.Store.Queries
	row, err := q.GetTask(ctx, db.GetTaskParams{OrgID: item.OrgID, ID: item.TaskID})
	if err != nil {
		return c, fmt.Errorf("load task %s: %w", item.TaskID, err)
	}
	c.Goal = row.Task.Goal
	if err := c.plan(ctx, q, item); err != nil {
		return c, err
	}
	if c.Asked, err = q.InboxItemPosition(ctx, db.InboxItemPositionParams{OrgID: item.OrgID, TaskID: item.TaskID, AskedAt: item.AskedAt, ID: item.ID}); err != nil {
		return c, fmt.Errorf("count the items of task %s: %w", item.TaskID, err)
	}
	if Kind(item.Kind) == Escalation {
		if c.Escalation, err = escalation(ctx, q, item, row); err != nil {
			return c, err
		}
	}
	if item.StepID == nil {
		return c, nil
	}
	if Kind(item.Kind) == Approval {
		if err := c.similar(ctx, q, item); err != nil {
			return c, err
		}
	}
	if err := c.requests(ctx, q, item); err != nil {
		return c, err
	}
	if c.Files, err = changesOf(ctx, q, item); err != nil {
		return c, err
	}
	if State(item.State) == Open {
		return c, nil
	}
	step, err := q.GetStep(ctx, db.GetStepParams{OrgID: item.OrgID, ID: *item.StepID})
	if err != nil {
		return c, fmt.Errorf("load step %s: %w", *item.StepID, err)
	}
	c.Step = &step
	if c.FilesChanged, err = q.FilesChangedByStep(ctx, db.FilesChangedByStepParams{OrgID: item.OrgID, StepID: step.ID}); err != nil {
		return c, fmt.Errorf("count the files that step %s changed: %w", step.ID, err)
	}
	return c, nil
}

// plan reads the agent's plan.
func (c *Card) plan(ctx context.Context, q *db.Queries, item db.InboxItem) error {
	raw, err := q.NewestCallOf(ctx, db.NewestCallOfParams{OrgID: item.OrgID, TaskID: item.TaskID, Tool: toolname.UpdatePlan})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the plan of task %s: %w", item.TaskID, err)
	}
	var plan struct {
		Items []struct{ Title, Status string }
	}
	if json.Unmarshal(raw, &plan) != nil {
		return nil // an agent wrote it: it is shown where it can be read
	}
	for _, status := range []string{"in_progress", "pending"} {
		for _, one := range plan.Items {
			if one.Status == status && c.PlanItem == "" {
				c.PlanItem = one.Title
			}
		}
	}
	for _, one := range plan.Items {
		if one.Status == "done" {
			c.PlanDone++
		}
	}
	c.PlanItems = int32(len(plan.Items)) //nolint:gosec // the tool's schema bounds it
	return nil
}

// similar counts the decisions on similar calls.
func (c *Card) similar(ctx context.Context, q *db.Queries, item db.InboxItem) error {
	n, err := q.CountSimilarDecisions(ctx, db.CountSimilarDecisionsParams{
		OrgID: item.OrgID, AgentID: item.AgentID, Tool: item.Tool, Shape: item.Shape, ID: item.ID, Since: similarSince,
	})
	if err != nil {
		return fmt.Errorf("count the decisions on calls like %s: %w", item.ID, err)
	}
	c.Approved, c.Rejected, c.ByShape = n.Approved, n.Rejected, item.Shape != ""
	if n.Rejected == 0 {
		return nil
	}
	last, err := q.LastSimilarRejection(ctx, db.LastSimilarRejectionParams{
		OrgID: item.OrgID, AgentID: item.AgentID, Tool: item.Tool, Shape: item.Shape, ID: item.ID, Since: similarSince,
	})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the last rejection of a call like %s: %w", item.ID, err)
	}
	c.LastRejection = &Rejection{ItemID: last.ID, By: last.AnsweredBy, Reason: last.Reason}
	if last.AnsweredAt != nil {
		c.LastRejection.At = *last.AnsweredAt
	}
	return nil
}

// escalation returns why a task was escalated, and what fits that.
func escalation(ctx context.Context, q *db.Queries, item db.InboxItem, row db.GetTaskRow) (*EscalationCause, error) {
	out := &EscalationCause{Provider: row.Provider, Model: row.Model}
	if row.Task.NodeID != nil {
		out.NodeID = *row.Task.NodeID
	}
	failures, err := q.TaskFailures(ctx, db.TaskFailuresParams{
		OrgID: item.OrgID, TaskID: item.TaskID, Until: item.AskedAt.Add(time.Minute), MaxRows: shownFails + 1,
		Types: []string{string(eventkind.AgentRetry), string(eventkind.TaskEscalated)},
	})
	if err != nil {
		return nil, fmt.Errorf("find the failures of task %s: %w", item.TaskID, err)
	}
	for i, f := range failures {
		if i == 0 {
			out.Code = f.ErrorCode
		}
		if len(out.Failures) < shownFails {
			out.Failures = append(out.Failures, TaskFailure{At: f.Time, Code: f.ErrorCode, Message: f.Message})
		}
	}
	out.Remedies = remediesOf(fault.Code(out.Code), item.Why)
	return out, nil
}

// remediesOf returns what may help against a failure, the best first. More memory helps only
// where memory was what was missing.
func remediesOf(code fault.Code, message string) []string {
	switch {
	case strings.Contains(message, "memory"):
		return []string{RemedyMemory, RemedyNode}
	case code == fault.ModelUnavailable, code == fault.ContextTooLarge, code == fault.RateLimited:
		return []string{RemedyRetry, RemedyModel}
	case code == fault.CredentialInvalid, code == fault.NoCredentials, code == fault.UnpricedModel:
		return []string{RemedyModel, RemedyRetry}
	case code == fault.NodeUnavailable, code == fault.NodeLocked, code == fault.ImageUnavailable, code == "":
		return []string{RemedyRetry, RemedyNode}
	}
	return []string{RemedyRetry}
}

// Judge returns what the hub would decide about the call of an open approval with other
// arguments.
func (s *Service) Judge(ctx context.Context, item db.InboxItem, argumentsJSON string) (Judged, error) {
	if Kind(item.Kind) != Approval || State(item.State) != Open || item.StepID == nil {
		return Judged{}, fault.New(fault.Precondition, "%s is not an open approval", item.ID).WithObject(item.ID).
			WithFix("see what it is: deckhand inbox show %s", item.ID)
	}
	return s.cfg.Steps.Judge(ctx, item.OrgID, *item.StepID, argumentsJSON)
}
