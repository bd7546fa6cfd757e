package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// memoryRaise describes how a task's memory limit changes after a command was killed for
// exceeding it.
type memoryRaise struct {
	// note is the text for the model, which decides whether to run the command again: the
	// effects that the command had before it was killed remain.
	note string
	// from and to are the jail's memory in bytes before and after; to is 0 if it does not
	// change.
	from, to, most int64
	override       task.Override
}

// planMemoryRaise returns the memory raise for a step that was killed for exceeding its
// limit: half as much again, up to the persona's maximum, and only once for all commands
// that ran under the same limit.
func (s *Steps) planMemoryRaise(ctx context.Context, tx *event.Tx, t db.Task, step db.Step) (memoryRaise, error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return memoryRaise{}, fmt.Errorf("load the persona of task %s: %w", t.ID, err)
	}
	spec, err := s.jailOf(ctx, t, p)
	if err != nil {
		return memoryRaise{}, err
	}
	out := memoryRaise{from: spec.GetMemoryBytes(), most: p.Jail.MaxMemoryBytes}
	if out.override, err = task.OverrideOf(t); err != nil {
		return memoryRaise{}, err
	}
	switch raised := out.override.MemoryRaisedAt; {
	case step.StartedAt != nil && step.StartedAt.Before(raised):
		out.note = fmt.Sprintf("The jail has got more memory since: %s.", bytesize.Format(out.from))
		return out, nil
	case out.from >= out.most:
		out.note = fmt.Sprintf("The jail has %s, and the persona allows no more (jail.max_memory): use less.", bytesize.Format(out.from))
		return out, nil
	}
	out.to = min(out.from+out.from/2, out.most)
	out.note = fmt.Sprintf("The jail had %s and has %s now; the persona allows up to %s. The command was not run again: what it did before stays done.",
		bytesize.Format(out.from), bytesize.Format(out.to), bytesize.Format(out.most))
	return out, nil
}

// applyMemoryRaise stores the new limit of the task. A running task goes back to the
// queue, and its next attempt enlarges the jail before anything runs.
func (s *Steps) applyMemoryRaise(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, st memoryRaise) error {
	if st.to == 0 || task.State(t.State).Final() {
		return nil
	}
	// Taken from the database's clock, as the start times of steps are.
	st.override.MemoryBytes, st.override.MemoryRaisedAt = st.to, *step.FinishedAt
	column, err := st.override.Column()
	if err != nil {
		return err
	}
	if err := tx.SetTaskOverride(ctx, db.SetTaskOverrideParams{OrgID: t.OrgID, ID: t.ID, Override: column}); err != nil {
		return fmt.Errorf("raise the memory of task %s: %w", t.ID, err)
	}
	if err := tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.TaskMemoryRaised, Payload: map[string]any{
		"step_id": step.ID, "from_bytes": st.from, "to_bytes": st.to, "max_bytes": st.most,
	}}); err != nil {
		return err
	}
	if task.State(t.State) != task.Running {
		return nil
	}
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err = task.Requeue(ctx, tx, t, fmt.Sprintf("goes on with %s of memory: step %s was killed for want of it with %s",
		bytesize.Format(st.to), step.ID, bytesize.Format(st.from)), "released", event.Hub)
	return err
}
