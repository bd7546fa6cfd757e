package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxNamed is how many of a task's checkpoints are looked through for names.
const maxNamed = 1000

const (
	// beforeRisk and beforeStep are why the point before a call is a checkpoint.
	beforeRisk = "risk"
	beforeStep = "step"
)

// checkpointOf returns why the rule of an agent's persona makes the point before a call a
// checkpoint: "risk" if the call is dangerous or a person is asked about it, "step" if the rule
// wants one before every call that is not safe; "" if it makes none. A question is no risk, and
// going back is what checkpoints are for.
func checkpointOf(rule persona.Checkpoints, record *tool.Tool, j judgement, arguments map[string]any) string {
	if rule == persona.EachIteration || j.denied != nil || j.deferred || record.AsksPerson(arguments) || record.Name == toolname.CheckpointRestore {
		return ""
	}
	dangerous := record.Category == deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS || len(j.policy.Dangers) > 0
	if dangerous || j.ask != "" {
		return beforeRisk
	}
	if rule == persona.EachStep && record.Category != deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE {
		return beforeStep
	}
	return ""
}

// keepBefore keeps the checkpoint of the iteration before a call as long as one that the agent
// named: with the files as the call found them, which its snapshot has, it is the point before
// the call. In the first turn there is no iteration to keep, only files.
func keepBefore(ctx context.Context, tx *event.Tx, t db.Task, step db.Step) error {
	iteration := step.Turn - 1
	_, err := tx.KeepCheckpoint(ctx, db.KeepCheckpointParams{
		OrgID: t.OrgID, TaskID: t.ID, Iteration: iteration, Reason: step.Checkpoint, KeepFor: task.MaxCheckpointTime,
	})
	if err != nil && !store.IsNotFound(err) {
		return fmt.Errorf("keep the checkpoint before step %s: %w", step.ID, err)
	}
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.CheckpointCreated, Payload: map[string]any{
		"iteration": iteration, "reason": step.Checkpoint, "step_id": step.ID, "name": fmt.Sprint(persona.BeforeStep, step.Number),
	}})
}

// goBack brings a task's workspace back to the newest of its checkpoints with a name.
func (s *Steps) goBack(ctx context.Context, t db.Task, step db.Step, node machine.Link, name string) (tool.Restored, error) {
	named, err := task.NamedCheckpoint(ctx, s.cfg.Store.Queries, t.OrgID, t.ID, name)
	if store.IsNotFound(err) {
		return tool.Restored{}, s.noCheckpoint(ctx, t, name)
	}
	if err != nil {
		return tool.Restored{}, fmt.Errorf("find checkpoint %q of %s: %w", name, t.ID, err)
	}
	restored, err := s.cfg.GoBack(ctx, t, node, step.ID, named)
	if err != nil {
		return restored, err
	}
	restored.Browser, err = browsers{s}.back(ctx, t, step, node, named)
	if errors.Is(err, errNotKept) {
		restored.BrowserStays, err = true, nil
	}
	return restored, err
}

// noCheckpoint returns the error for a name that no checkpoint of a task has.
func (s *Steps) noCheckpoint(ctx context.Context, t db.Task, name string) error {
	refused := fault.New(fault.Invalid, "this task has no checkpoint %q", name).WithCode(fault.InvalidParameters)
	rows, err := s.cfg.Store.ListCheckpoints(ctx, db.ListCheckpointsParams{OrgID: t.OrgID, TaskID: t.ID, MaxRows: maxNamed})
	if err != nil {
		return fmt.Errorf("list the checkpoints of %s: %w", t.ID, err)
	}
	var names []string
	for _, row := range rows {
		for _, number := range row.BeforeSteps {
			names = append(names, fmt.Sprintf("%q", fmt.Sprint(persona.BeforeStep, number)))
		}
		if said := fmt.Sprintf("%q", row.Name); row.Name != "" && !slices.Contains(names, said) {
			names = append(names, said)
		}
	}
	if len(names) == 0 {
		return refused.WithFix("name one in an earlier turn with %s", toolname.Checkpoint)
	}
	return refused.WithFix("use one of %s", strings.Join(names, ", "))
}
