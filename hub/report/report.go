// Package report takes what a worker reports of the task it holds: events,
// finished turns, checkpoints and the end of its loop. Each report is one
// transaction that holds the lease; a stale one changes nothing.
package report

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/lease"
	"github.com/deckhand-sh/deckhand/hub/price"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Config says what Reports works with.
type Config struct {
	Recorder *event.Recorder
	Redact   *redact.Redactor
	Prices   price.Table
	// Admit is called after a commit that may let another task start.
	Admit func(orgID string)
}

// Reports takes reports.
type Reports struct{ cfg Config }

// New makes Reports.
func New(cfg Config) *Reports { return &Reports{cfg} }

// held runs fn in a transaction that holds the lease.
func (r *Reports) held(ctx context.Context, orgID string, le lease.Lease, fn func(tx *event.Tx, t db.Task, by event.Actor) error) error {
	return r.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.Hold(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		return fn(tx, t, event.Actor{Kind: "worker", ID: *t.WorkerID})
	})
}

// Events appends events and answers the last one's number. A batch that is
// numbered is stored once, however often it comes; 0 numbers none.
func (r *Reports) Events(ctx context.Context, orgID string, le lease.Lease, batch int64, drafts []event.Draft) (int64, error) {
	seq, held, err := r.cfg.Recorder.AppendHeld(ctx, event.Holder{
		OrgID: orgID, TaskID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), Batch: batch,
	}, drafts...)
	if err == nil && !held {
		err = lease.Stale(le)
	}
	return seq, err
}

// Turn stores a finished turn with its cost and answers it. A turn that was
// stored before is answered as it was stored, and nothing is counted twice.
func (r *Reports) Turn(ctx context.Context, orgID string, le lease.Lease, turn *deckhandv1.Turn, drafts []event.Draft) (*deckhandv1.Turn, error) {
	p, ok := r.cfg.Prices.Of(turn.GetProvider(), turn.GetModel())
	if !ok {
		return nil, fault.New(fault.Precondition, "model %s of %s has no price", turn.GetModel(), turn.GetProvider()).
			WithCode(fault.UnpricedModel).WithFix("use a model of the price table").WithObject(le.TaskID)
	}
	usage := turn.GetUsage()
	if usage == nil {
		usage = &deckhandv1.Usage{}
		turn.Usage = usage
	}
	usage.CostMicros = p.Micros(price.Usage{
		Input: usage.GetInputTokens(), Output: usage.GetOutputTokens(),
		CacheRead: usage.GetCacheReadTokens(), CacheWrite: usage.GetCacheWriteTokens(),
	})
	turn.Attempt = le.Attempt
	content, err := r.encode(turn)
	if err != nil {
		return nil, fmt.Errorf("encode turn %d of %s: %w", turn.GetTurn(), le.TaskID, err)
	}
	stored := turn
	err = r.held(ctx, orgID, le, func(tx *event.Tx, t db.Task, by event.Actor) error {
		n, err := tx.CreateTurn(ctx, db.CreateTurnParams{
			TaskID: t.ID, Turn: turn.GetTurn(), OrgID: orgID, Attempt: t.Attempt, Content: content,
		})
		if err != nil {
			return fmt.Errorf("store turn %d of %s: %w", turn.GetTurn(), t.ID, err)
		}
		if n == 0 {
			row, err := tx.GetTurn(ctx, db.GetTurnParams{OrgID: orgID, TaskID: t.ID, Turn: turn.GetTurn()})
			if err != nil {
				return fmt.Errorf("load turn %d of %s: %w", turn.GetTurn(), t.ID, err)
			}
			stored, err = Turn(row)
			return err
		}
		if turn.GetTurn() != t.TurnCount+1 {
			return fault.New(fault.Invalid, "turn.turn is %d, and the task's next turn is %d", turn.GetTurn(), t.TurnCount+1).WithObject(t.ID)
		}
		if err := tx.AddTaskUsage(ctx, db.AddTaskUsageParams{
			OrgID: orgID, ID: t.ID, Turn: turn.GetTurn(), InputTokens: usage.GetInputTokens(), OutputTokens: usage.GetOutputTokens(),
			CacheReadTokens: usage.GetCacheReadTokens(), CacheWriteTokens: usage.GetCacheWriteTokens(), CostMicros: usage.GetCostMicros(),
		}); err != nil {
			return fmt.Errorf("count usage of %s: %w", t.ID, err)
		}
		err = tx.Append(orgID, t.ID, by, drafts...)
		return err
	})
	return stored, err
}

// encode answers the turn as masked JSON. Provider signatures are kept as they
// are: they are no secrets, and the provider wants them back unchanged.
func (r *Reports) encode(turn *deckhandv1.Turn) ([]byte, error) {
	data, err := protojson.Marshal(turn)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, err
	}
	masked := r.cfg.Redact.Map(plain)
	if blocks, ok := masked["blocks"].([]any); ok {
		for i, b := range turn.GetBlocks() {
			reasoning := b.GetReasoning()
			block, _ := blocks[i].(map[string]any)
			kind, _ := block["reasoning"].(map[string]any)
			if reasoning == nil || kind == nil {
				continue
			}
			if reasoning.GetSignature() != "" {
				kind["signature"] = reasoning.GetSignature()
			}
			if reasoning.GetRedacted() != "" {
				kind["redacted"] = reasoning.GetRedacted()
			}
		}
	}
	return json.Marshal(masked)
}

// Turn reads a stored turn.
func Turn(row db.Turn) (*deckhandv1.Turn, error) {
	turn := &deckhandv1.Turn{}
	if err := protojson.Unmarshal(row.Content, turn); err != nil {
		return nil, fmt.Errorf("read turn %d of %s: %w", row.Turn, row.TaskID, err)
	}
	return turn, nil
}

// Checkpoint stores the loop's state at an iteration boundary, with the events
// that close it. Repeating it is harmless.
func (r *Reports) Checkpoint(ctx context.Context, orgID string, le lease.Lease, iteration int32, state map[string]any, progress float64, drafts []event.Draft) error {
	data, err := json.Marshal(r.cfg.Redact.Map(state))
	if err != nil {
		return fmt.Errorf("encode checkpoint of %s: %w", le.TaskID, err)
	}
	return r.held(ctx, orgID, le, func(tx *event.Tx, t db.Task, by event.Actor) error {
		n, err := tx.CreateCheckpoint(ctx, db.CreateCheckpointParams{
			TaskID: t.ID, Iteration: iteration, OrgID: orgID, Attempt: t.Attempt, State: data,
		})
		if err != nil {
			return fmt.Errorf("store checkpoint %d of %s: %w", iteration, t.ID, err)
		}
		if n == 0 {
			return nil
		}
		if err := tx.SetTaskProgress(ctx, db.SetTaskProgressParams{
			OrgID: orgID, ID: t.ID, Iteration: iteration, Progress: progress,
		}); err != nil {
			return fmt.Errorf("store progress of %s: %w", t.ID, err)
		}
		err = tx.Append(orgID, t.ID, by, drafts...)
		return err
	})
}

// End is how a loop ended.
type End struct {
	State        task.State
	Reason       string
	Summary      string
	ErrorCode    string
	ErrorMessage string
	Events       []event.Draft
}

// Finish moves the task to where its loop ended and ends the lease.
func (r *Reports) Finish(ctx context.Context, orgID string, le lease.Lease, end End) error {
	if end.Reason == "" {
		end.Reason = "the agent ended its run"
	}
	return r.held(ctx, orgID, le, func(tx *event.Tx, t db.Task, by event.Actor) error {
		if err := tx.SetTaskResult(ctx, db.SetTaskResultParams{
			OrgID: orgID, ID: t.ID, Summary: r.cfg.Redact.String(end.Summary), ErrorCode: end.ErrorCode,
			ErrorMessage: r.cfg.Redact.String(end.ErrorMessage), Done: end.State == task.Succeeded,
		}); err != nil {
			return fmt.Errorf("store result of %s: %w", t.ID, err)
		}
		if _, err := tx.CancelSteps(ctx, db.CancelStepsParams{OrgID: orgID, TaskID: t.ID, Reason: "the run ended"}); err != nil {
			return fmt.Errorf("end open steps of %s: %w", t.ID, err)
		}
		if err := tx.Append(orgID, t.ID, by, end.Events...); err != nil {
			return err
		}
		tx.AfterCommit(func() { r.cfg.Admit(orgID) })
		_, err := task.Move(ctx, tx, t, end.State, r.cfg.Redact.String(end.Reason), by)
		return err
	})
}
