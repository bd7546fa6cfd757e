package task

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Instruction is a message that a person sends to a task's agent.
type Instruction struct {
	Text string
	// IdempotencyKey makes a repeated call harmless; unique in the task, "" for none.
	IdempotencyKey string
	// Interrupt stops what the agent does, so that it reads the message next.
	Interrupt bool
}

// SendMessage sends a task's agent a message. It resumes a paused task, and starts
// another attempt of one that waits for its review.
//
// A message that interrupts stops the task's turn: calls that have not begun are skipped in
// the transaction that stores the message, commands that run are killed after it, and a
// task of which no call runs loses its lease, which cuts off the model's turn. Its next
// attempt begins with the message.
func (s *Service) SendMessage(ctx context.Context, orgID, id string, msg Instruction, by event.Actor) (db.GetTaskRow, db.TaskMessage, error) {
	var m db.TaskMessage
	var running []db.Step
	row, err := s.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		from := State(t.State)
		if err := takesMessages(id, from, msg.Interrupt); err != nil {
			return err
		}
		more := map[string]any{}
		if msg.Interrupt {
			var err error
			if running, err = tx.StartedSteps(ctx, db.StartedStepsParams{OrgID: orgID, TaskID: id}); err != nil {
				return fmt.Errorf("find what runs of %s: %w", id, err)
			}
			stopped := make([]string, len(running))
			for i, step := range running {
				stopped[i] = step.ID
			}
			more = map[string]any{"interrupt": true, "stopped": stopped}
		}
		var fresh bool
		var err error
		if m, fresh, err = message.Say(ctx, tx, t, msg.Text, msg.IdempotencyKey, by, more); err != nil {
			return err
		}
		if !fresh {
			running = nil // what runs now began after the message
			return nil
		}
		after := map[string]any{"message_id": m.ID, "text": m.Content}
		if msg.Interrupt {
			after["interrupt"] = true
		}
		if err := audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "task.told", ObjectKind: "task", ObjectID: id, After: after,
		}); err != nil {
			return err
		}
		if msg.Interrupt {
			if err := skipOpen(ctx, tx, t, by); err != nil {
				return err
			}
		}
		switch {
		case from == Paused || from == ReviewNeeded:
			tx.Publish(change.QueueChanged{OrgID: orgID})
			_, err = Move(ctx, tx, t, Queued, "woken by a message of "+by.ID+"; waits for a worker", by)
		case from == Running && msg.Interrupt && len(running) == 0:
			tx.Publish(change.QueueChanged{OrgID: orgID})
			_, err = Requeue(ctx, tx, t, "interrupted by a message of "+by.ID+"; waits for a worker", "released", by)
		}
		return err
	})
	if err != nil {
		return row, m, err
	}
	var stopping sync.WaitGroup
	for _, step := range running {
		stopping.Go(func() { s.cfg.Recorder.Publish(change.StepInterrupted{Step: step, By: by.ID}) })
	}
	stopping.Wait()
	return row, m, nil
}

// takesMessages refuses a message to a task that would not get it.
func takesMessages(id string, in State, interrupt bool) error {
	switch {
	case in.Final():
		return fault.New(fault.Precondition, "task %s has ended (%s): it gets no more messages", id, in).WithObject(id).
			WithFix("start another run with `deckhand agent message`, or go on from where it was: deckhand task resume-from %s --message \"…\"", id)
	case in == Escalated:
		return fault.New(fault.Precondition, "task %s is escalated: it does not go on by itself", id).WithObject(id).
			WithFix("put it back into the queue first: deckhand task retry %s", id)
	case interrupt && (in == AwaitingApproval || in == NeedsInput):
		return fault.New(fault.Precondition, "interrupt: task %s is %s, so nothing of it runs", id, in).WithObject(id).
			WithFix("answer what it asks with your words (deckhand inbox list), or send the message without interrupt")
	case interrupt && in == Waiting:
		return fault.New(fault.Precondition, "interrupt: task %s waits for a subtask, and nothing of its own runs", id).WithObject(id).
			WithFix("send the message to the subtask, or cancel that (deckhand task list --parent %s), or send the message without interrupt", id)
	}
	return nil
}

// skipOpen skips the calls of an interrupted turn that have not begun.
func skipOpen(ctx context.Context, tx *event.Tx, t db.Task, by event.Actor) error {
	reason := by.ID + " interrupted the turn with a message"
	skipped, err := tx.SkipOpenSteps(ctx, db.SkipOpenStepsParams{
		OrgID: t.OrgID, TaskID: t.ID, Reason: reason,
		Observation: "skipped: " + reason + ", so this call was not made. Read the message, then make the call again if it is still right.",
	})
	if err != nil {
		return fmt.Errorf("skip the calls of %s: %w", t.ID, err)
	}
	for _, one := range skipped {
		if err := tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.ToolDenied, Payload: map[string]any{
			"step_id": one.ID, "number": one.Number, "tool": one.Tool, "arguments": map[string]any{}, "reason": reason, "turn": one.Turn,
		}}); err != nil {
			return err
		}
	}
	return nil
}

// ProgramOf names a program in the jail of a task, as the sender of a message and as an actor.
// No user can have such a name.
func ProgramOf(taskID string) string { return ProgramPrefix + taskID }

// ProgramPrefix is how the names of all senders begin that are programs.
const ProgramPrefix = "program of "

// OfProgram returns the task of the program that sent a message; false for a person.
func OfProgram(saidBy string) (taskID string, ok bool) {
	return strings.CutPrefix(saidBy, ProgramPrefix)
}

// Bounds of the messages that programs send to a task: what waits together for the agent's next
// turn, and how many the programs of one task may send at all.
const (
	maxWaitingNotes     = 20
	maxWaitingNoteBytes = 64 << 10
	maxNotesOfTask      = 500
)

// Messages sends notes, and changes messages that were sent.
type Messages struct{ Tasks *Service }

// Note sends a task's agent a message of a program. Unlike a person's it resumes nothing and
// interrupts nothing: the agent gets it when it goes on, and a task that is done does not go on
// for it. by is the program. Its idempotency key is unique among the messages of its task.
func (s Messages) Note(ctx context.Context, orgID, id string, msg Instruction, by event.Actor) (db.GetTaskRow, db.TaskMessage, error) {
	var m db.TaskMessage
	row, err := s.Tasks.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		if err := takesMessages(id, State(t.State), false); err != nil {
			return err
		}
		key := msg.IdempotencyKey
		if key != "" {
			key = by.ID + "/" + key // those of people and of other programs are not it
			var err error
			m, err = tx.MessageByKey(ctx, db.MessageByKeyParams{OrgID: orgID, TaskID: id, IdempotencyKey: &key})
			switch {
			case err == nil && (m.SaidBy != by.ID || m.Content != tx.Redact(orgID).String(msg.Text)):
				return fault.New(fault.Exists, "idempotency_key %q was used for another message to task %s", msg.IdempotencyKey, id).WithObject(id).
					WithFix("use a key of its own for each message")
			case err == nil:
				return nil
			case !store.IsNotFound(err):
				return fmt.Errorf("find message by idempotency key: %w", err)
			}
		}
		if err := roomForNote(ctx, tx, t, len(msg.Text), by); err != nil {
			return err
		}
		var err error
		if m, _, err = message.Say(ctx, tx, t, msg.Text, key, by, nil); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "task.told", ObjectKind: "task", ObjectID: id, After: map[string]any{"message_id": m.ID, "text": m.Content},
		})
	})
	return row, m, err
}

// roomForNote refuses a message of a program to a task that has as many of them as it may.
func roomForNote(ctx context.Context, tx *event.Tx, t db.Task, size int, by event.Actor) error {
	n, err := tx.CountProgramMessages(ctx, db.CountProgramMessagesParams{OrgID: t.OrgID, TaskID: t.ID, SaidBy: by.ID, Programs: ProgramPrefix})
	switch {
	case err != nil:
		return fmt.Errorf("count the messages of programs to %s: %w", t.ID, err)
	case n.Sent >= maxNotesOfTask:
		return fault.New(fault.Exhausted, "programs of this task have sent its parent %d messages, and no more are taken", maxNotesOfTask).
			WithFix("write what you have to say to the output, or to a file")
	case n.Waiting >= maxWaitingNotes || n.WaitingBytes+int64(size) > maxWaitingNoteBytes:
		return fault.New(fault.Exhausted, "%d messages of programs with %d bytes wait for the agent of task %s; at most %d with %d bytes together may",
			n.Waiting, n.WaitingBytes, t.ID, maxWaitingNotes, maxWaitingNoteBytes).WithFix("send one message in place of several, or try again when the agent has got them")
	}
	return nil
}

// Withdraw takes back a message that the agent has not got yet; with messageID "" the newest
// of them.
func (s Messages) Withdraw(ctx context.Context, orgID, id, messageID string, by event.Actor) (db.GetTaskRow, db.TaskMessage, error) {
	var m db.TaskMessage
	row, err := s.Tasks.locked(ctx, orgID, id, func(tx *event.Tx, t db.Task) error {
		var fresh bool
		var err error
		if m, fresh, err = message.Withdraw(ctx, tx, t, messageID, by); err != nil || !fresh {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "task.message_withdrawn", ObjectKind: "task", ObjectID: id, Before: map[string]any{"message_id": m.ID, "text": m.Content},
		})
	})
	return row, m, err
}
