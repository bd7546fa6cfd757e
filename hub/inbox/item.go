// Package inbox stores the items that need a person: approvals, questions from agents,
// steps with an unknown outcome, reviews (package review), and escalated tasks. Service
// lists and decides them; Add opens one; Yield and Park take a waiting task from its
// worker.
//
// An item is opened in the transaction that parks its step or task. It is closed once: by
// a decision, by its timeout on the database's clock, or because its task has ended
// (which the database itself does). Closing it moves the step and, if the task can
// continue, requeues the task in the same transaction. Nothing is kept in memory: a hub
// that dies loses neither items nor decisions, and any hub accepts the decision on any
// item.
//
// Two people who decide at once lock the same row; the second gets an error that names
// the first. A task's row is always locked before its items'.
package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Kind is the kind of an item.
type Kind string

// The kinds.
const (
	Approval Kind = "approval"
	Question Kind = "question"
	Unknown  Kind = "unknown"
	// Items of a task, without a step.
	Review     Kind = "review"
	Escalation Kind = "escalation"
	// Items about what keeps work from going on: see package stop.
	Limit      = Kind(stop.Limit)
	Budget     = Kind(stop.Budget)
	Suspended  = Kind(stop.Suspended)
	Egress     = Kind(stop.Egress)
	Provider   = Kind(stop.Provider)
	Credential = Kind(stop.Credential)
)

// Kinds returns the names of all kinds.
func Kinds() []string {
	return append([]string{string(Approval), string(Question), string(Unknown), string(Review), string(Escalation)}, stop.Kinds()...)
}

// State is the state of an item.
type State string

// The states. Only an open item changes.
const (
	Open      State = "open"
	Answered  State = "answered"
	Expired   State = "expired"
	Withdrawn State = "withdrawn"
)

// The actions at an item's timeout.
const (
	// OnExpiryReject lets the agent continue without the call.
	OnExpiryReject = "reject"
	// OnExpiryStop ends the task.
	OnExpiryStop = "stop"
	// OnExpiryDefault replies with a question's default.
	OnExpiryDefault = "default"
)

// NewItem describes an item to open for a step.
type NewItem struct {
	Kind Kind
	// Arguments and Preview are masked.
	Arguments json.RawMessage
	Preview   string
	Why       string
	// Binding is what the decision is valid for, by part.
	Binding json.RawMessage
	// Decision is the hub's decision on the call and what it read in it.
	Decision CallDecision
	// Files are what the call would do to files; nil for calls of other tools.
	Files *FileChanges
	// Timeout is how long the item waits; 0 for no limit.
	Timeout  time.Duration
	OnExpiry string
	// Shape identifies similar calls; "" if similar calls can never be approved by a
	// rule. Offer returns how many similar calls were approved, if the item offers such a
	// rule.
	Shape string
	Offer func(itemID string) (int32, error)
	// Attachments are the files of a question. Seal encrypts them.
	Attachments []NewAttachment
	Seal        func(value []byte, object string) ([]byte, error)
	// More is added to the event.
	More map[string]any
}

// events are the kinds of the events that record a new item, by kind of item.
var events = map[Kind]eventkind.Kind{Approval: eventkind.ApprovalRequested, Question: eventkind.InputRequired, Unknown: eventkind.OutcomeUnknown}

// maxEventPreview bounds the preview in an event, in bytes; the item has all of it.
const maxEventPreview = 4 << 10

func begins(preview string) string {
	if len(preview) <= maxEventPreview {
		return preview
	}
	return fmt.Sprintf("%s [... %d bytes in all]", strings.ToValidUTF8(preview[:maxEventPreview], ""), len(preview))
}

// Add opens an item for a waiting step. The task's row is locked.
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
	if err := attach(ctx, tx.Queries, item, ask); err != nil {
		return err
	}
	if ask.Files != nil {
		if err := ask.Files.Store(ctx, tx.Queries, t.OrgID, item.ID); err != nil {
			return err
		}
	}
	payload := map[string]any{
		"item_id": item.ID, "step_id": step.ID, "number": step.Number, "turn": step.Turn, "tool": step.Tool, "category": item.Category,
		"preview": begins(item.Preview), "why": item.Why,
	}
	if item.ExpiresAt != nil {
		payload["expires_at"], payload["on_expiry"] = item.ExpiresAt.UTC().Format(time.RFC3339), item.OnExpiry
	}
	for k, v := range ask.More {
		payload[k] = v
	}
	if len(ask.Attachments) > 0 {
		payload["attachments"] = attachedPayload(ask.Attachments)
	}
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: events[ask.Kind], Payload: payload})
}

// Find returns the id of the item that ref identifies: an id or a unique prefix.
func (s *Service) Find(ctx context.Context, v task.Viewer, ref string) (string, error) {
	rows, err := s.cfg.Store.FindInboxItems(ctx, db.FindInboxItemsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("inbox", ref)})
	return store.One("inbox", ref, rows, err)
}

// MayAnswer refuses users who may not answer an item that they see: those whose task or agent
// it is about and administrators may.
func (s *Service) MayAnswer(ctx context.Context, v task.Viewer, id string) error {
	owned, err := s.cfg.Store.InboxItemOwned(ctx, db.InboxItemOwnedParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, ID: id})
	if err != nil && !store.IsNotFound(err) {
		return fmt.Errorf("look whether %q may answer inbox item %s: %w", v.Name, id, err)
	}
	if owned {
		return nil
	}
	return fault.New(fault.Denied, "inbox item %s is about a task of others, which you see because the organisation shares its tasks", id).
		WithCode(fault.PermissionDenied).WithObject(id).WithFix("ask its submitter, an owner of its agent or an administrator")
}

// Get returns an item by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetInboxItemRow, error) {
	row, err := s.cfg.Store.GetInboxItem(ctx, db.GetInboxItemParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no inbox item %q", id).WithObject(id)
	}
	return row, err
}
