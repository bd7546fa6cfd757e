// Package message stores the messages that people send to a task's agent. A message waits
// until the loop reaches the end of an iteration, or an attempt begins; Bind then binds
// it to the turn after which the model gets it, so that every attempt at the task sends
// the model the same input.
//
// If a worker dies, no message is lost: the next attempt gets all that were bound. A
// message is stored with secrets masked, and the model gets it in that form. Until it is
// bound, it can be withdrawn.
package message

import (
	"context"
	"fmt"
	"maps"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Say stores a message for a task whose row the transaction has locked. A message that is
// sent again with its key is returned as it was stored, with fresh false. more is added to
// the payload of its event.
func Say(ctx context.Context, tx *event.Tx, t db.Task, text, key string, by event.Actor, more map[string]any) (m db.TaskMessage, fresh bool, err error) {
	text = tx.Redact(t.OrgID).String(text)
	p := db.CreateMessageParams{ID: ident.New("msg"), OrgID: t.OrgID, TaskID: t.ID, Content: text, SaidBy: by.ID}
	if key != "" {
		p.IdempotencyKey = &key
	}
	m, err = tx.CreateMessage(ctx, p)
	if store.IsNotFound(err) {
		m, err = tx.MessageByKey(ctx, db.MessageByKeyParams{OrgID: t.OrgID, TaskID: t.ID, IdempotencyKey: p.IdempotencyKey})
		if err != nil {
			return m, false, fmt.Errorf("find message by idempotency key: %w", err)
		}
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("store message to %s: %w", t.ID, err)
	}
	if err := tx.CountMessage(ctx, db.CountMessageParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
		return m, false, fmt.Errorf("count message to %s: %w", t.ID, err)
	}
	payload := map[string]any{"message_id": m.ID, "text": m.Content, "by": m.SaidBy}
	maps.Copy(payload, more)
	return m, true, tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.MessageReceived, Payload: payload})
}

// Withdraw takes back a message that is not bound to a turn yet; with id "" the newest of
// them. The transaction has locked the task's row. Withdrawing it again is harmless.
func Withdraw(ctx context.Context, tx *event.Tx, t db.Task, id string, by event.Actor) (m db.TaskMessage, fresh bool, err error) {
	withdrawn, err := tx.WithdrawMessage(ctx, db.WithdrawMessageParams{OrgID: t.OrgID, TaskID: t.ID, ID: id})
	switch {
	case err == nil:
		id = withdrawn
		if err := tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.MessageWithdrawn, Payload: map[string]any{"message_id": id, "by": by.ID}}); err != nil {
			return m, false, err
		}
	case !store.IsNotFound(err):
		return m, false, fmt.Errorf("withdraw a message to %s: %w", t.ID, err)
	case id == "":
		return m, false, fault.New(fault.Precondition, "no message to task %s waits to be delivered", t.ID).WithObject(t.ID).
			WithFix("send another message that corrects the last one: deckhand task message %s \"…\"", t.ID)
	}
	m, err = tx.GetMessage(ctx, db.GetMessageParams{OrgID: t.OrgID, TaskID: t.ID, ID: id})
	switch {
	case store.IsNotFound(err):
		return m, false, fault.New(fault.NotFound, "message_id: task %s has no message %q", t.ID, id).WithObject(id).
			WithFix("leave it out for the newest message that waits")
	case err != nil:
		return m, false, fmt.Errorf("find message %s: %w", id, err)
	case m.WithdrawnAt != nil:
		return m, withdrawn != "", nil
	}
	return m, false, fault.New(fault.Precondition, "the agent has message %s already", id).WithObject(id).
		WithFix("send another one that corrects it, with --interrupt to stop what the agent does: deckhand task message %s --interrupt \"…\"", t.ID)
}

// Bind binds a task's waiting messages to a turn and returns all messages that the model
// gets after that turn. The transaction has locked the task's row.
func Bind(ctx context.Context, tx *event.Tx, t db.Task, afterTurn int32) ([]db.TaskMessage, error) {
	if t.MessagesWaiting == 0 {
		return nil, nil
	}
	if err := tx.BindMessages(ctx, db.BindMessagesParams{OrgID: t.OrgID, TaskID: t.ID, AfterTurn: afterTurn}); err != nil {
		return nil, fmt.Errorf("bind messages to %s: %w", t.ID, err)
	}
	all, err := After(ctx, tx.Queries, t, afterTurn)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	return all, tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.MessageDelivered, Payload: map[string]any{
		"message_ids": ids, "after_turn": afterTurn,
	}})
}

// After returns the messages that the model gets after a turn, in order.
func After(ctx context.Context, q *db.Queries, t db.Task, turn int32) ([]db.TaskMessage, error) {
	all, err := q.MessagesAfter(ctx, db.MessagesAfterParams{OrgID: t.OrgID, TaskID: t.ID, AfterTurn: turn})
	if err != nil {
		return nil, fmt.Errorf("load messages to %s: %w", t.ID, err)
	}
	return all, nil
}
