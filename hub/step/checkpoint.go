package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// maxNamed is how many of a task's checkpoints are looked through for names.
const maxNamed = 1000

// goBack brings a task's workspace back to the newest of its checkpoints with a name.
func (s *Steps) goBack(ctx context.Context, t db.Task, step db.Step, node machine.Link, name string) (tool.Restored, error) {
	iteration, err := s.cfg.Store.CheckpointNamed(ctx, db.CheckpointNamedParams{OrgID: t.OrgID, TaskID: t.ID, Name: name})
	if store.IsNotFound(err) {
		return tool.Restored{}, s.noCheckpoint(ctx, t, name)
	}
	if err != nil {
		return tool.Restored{}, fmt.Errorf("find checkpoint %q of %s: %w", name, t.ID, err)
	}
	return s.cfg.GoBack(ctx, t, node, step.ID, iteration)
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
		if row.Name != "" && !slices.Contains(names, row.Name) {
			names = append(names, fmt.Sprintf("%q", row.Name))
		}
	}
	if len(names) == 0 {
		return refused.WithFix("name one in an earlier turn with %s", toolname.Checkpoint)
	}
	return refused.WithFix("use one of %s", strings.Join(names, ", "))
}
