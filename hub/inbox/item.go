// Package inbox is what waits for a person: calls to approve, questions of
// agents, calls of which nobody knows whether they took effect, runs to review
// (package review), and tasks that are escalated.
//
// An item is opened in the transaction that parks its step or task, and closed once, by
// an answer, by its time running out on the database's clock, or because its
// task has ended (which the database itself sees to). Closing it moves the step
// and, where the task can go on, puts the task back into the queue in the same
// transaction. So nothing is kept in memory: a hub that dies loses no question
// and no answer, and any hub takes the answer of any item.
//
// Two people who answer at once lock the same row; the second is told who was
// first. A task's row is always locked before its items'.
package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Kind is what sort of answer an item waits for.
type Kind string

// The kinds.
const (
	Approval Kind = "approval"
	Question Kind = "question"
	Unknown  Kind = "unknown"
	// Of a task, and of no step.
	Review     Kind = "review"
	Escalation Kind = "escalation"
)

// Kinds returns the names of all kinds.
func Kinds() []string {
	return []string{string(Approval), string(Question), string(Unknown), string(Review), string(Escalation)}
}

// State is where an item stands.
type State string

// The states. Only an open item changes.
const (
	Open      State = "open"
	Answered  State = "answered"
	Expired   State = "expired"
	Withdrawn State = "withdrawn"
)

// What happens when an item's time runs out.
const (
	// OnExpiryReject lets the agent go on without the call.
	OnExpiryReject = "reject"
	// OnExpiryStop ends the task.
	OnExpiryStop = "stop"
	// OnExpiryDefault takes a question's default.
	OnExpiryDefault = "default"
)

// NewItem is what a person is asked about a step.
type NewItem struct {
	Kind Kind
	// Arguments and Preview are masked.
	Arguments json.RawMessage
	Preview   string
	Why       string
	// Binding is what the answer holds for, by part.
	Binding json.RawMessage
	// Decision is what was decided about the call and read in it.
	Decision CallDecision
	// Timeout is how long the item waits; 0 for however long it takes.
	Timeout  time.Duration
	OnExpiry string
	// Shape is what the call has in common with others; "" where calls like it are
	// never allowed for good. Offer answers how many were approved, where it is
	// offered now to be asked no more.
	Shape string
	Offer func(itemID string) (int32, error)
	// More is added to the event.
	More map[string]any
}

// events are what a new item of each kind is in the task's history.
var events = map[Kind]eventkind.Kind{Approval: eventkind.ApprovalRequested, Question: eventkind.InputRequired, Unknown: eventkind.OutcomeUnknown}

// Add opens an item for a step that waits. The task's row is locked.
func Add(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, ask NewItem) error {
	params := db.CreateInboxItemParams{
		ID: ident.New("inbox"), OrgID: t.OrgID, Kind: string(ask.Kind), TaskID: t.ID, StepID: &step.ID, AgentID: t.AgentID,
		Tool: step.Tool, Category: step.Category, Arguments: ask.Arguments, Preview: ask.Preview, Why: ask.Why, Binding: ask.Binding,
		OnExpiry: ask.OnExpiry, Shape: ask.Shape,
	}
	var err error
	if params.Decision, err = json.Marshal(ask.Decision); err != nil {
		return fmt.Errorf("encode the decision about step %s: %w", step.ID, err)
	}
	if ask.Shape != "" && ask.Offer != nil {
		if params.Offered, err = ask.Offer(params.ID); err != nil {
			return err
		}
	}
	if ask.Timeout > 0 {
		params.Timeout = &ask.Timeout
	}
	item, err := tx.CreateInboxItem(ctx, params)
	if err != nil {
		return fmt.Errorf("store what is asked about step %s: %w", step.ID, err)
	}
	payload := map[string]any{
		"item_id": item.ID, "step_id": step.ID, "number": step.Number, "turn": step.Turn, "tool": step.Tool, "category": item.Category,
		"preview": item.Preview, "why": item.Why,
	}
	if item.ExpiresAt != nil {
		payload["expires_at"], payload["on_expiry"] = item.ExpiresAt.UTC().Format(time.RFC3339), item.OnExpiry
	}
	for k, v := range ask.More {
		payload[k] = v
	}
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: events[ask.Kind], Payload: payload})
}

// Find returns the id of the item that ref names: an id or a unique prefix.
func (s *Service) Find(ctx context.Context, v task.Viewer, ref string) (string, error) {
	rows, err := s.cfg.Store.FindInboxItems(ctx, db.FindInboxItemsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("inbox", ref)})
	return store.One("inbox", ref, rows, err)
}

// Get returns an item by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetInboxItemRow, error) {
	row, err := s.cfg.Store.GetInboxItem(ctx, db.GetInboxItemParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no inbox item %q", id).WithObject(id)
	}
	return row, err
}

// Filter picks items for List; empty fields match all.
type Filter struct {
	TaskID, AgentID string
	Kinds           []Kind
	States          []State
	PageSize        int32
	PageToken       string
}

// List returns a page of items, newest first, and the next page's token.
func (s *Service) List(ctx context.Context, v task.Viewer, f Filter) ([]db.ListInboxItemsRow, string, error) {
	params := db.ListInboxItemsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: f.PageSize + 1}
	if f.TaskID != "" {
		params.TaskID = &f.TaskID
	}
	if f.AgentID != "" {
		params.AgentID = &f.AgentID
	}
	for _, k := range f.Kinds {
		params.Kinds = append(params.Kinds, string(k))
	}
	for _, st := range f.States {
		params.States = append(params.States, string(st))
	}
	if f.PageToken != "" {
		at, id, err := store.ParsePageToken(f.PageToken)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListInboxItems(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list inbox items: %w", err)
	}
	if len(rows) <= int(f.PageSize) {
		return rows, "", nil
	}
	rows = rows[:f.PageSize]
	last := rows[len(rows)-1].InboxItem
	return rows, store.PageToken(last.AskedAt, last.ID), nil
}
