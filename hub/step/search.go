package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
)

// stepSearch searches the history of a step's task. It implements tool.StepSearcher.
type stepSearch struct {
	store *store.Store
	step  db.Step
}

// maxFound is the number of steps that a search returns at most.
const maxFound = 40

// Search implements tool.Past.
func (p stepSearch) Search(ctx context.Context, words []string) ([]tool.StepHit, error) {
	rows, err := p.store.SearchSteps(ctx, db.SearchStepsParams{OrgID: p.step.OrgID, TaskID: p.step.TaskID, Words: words, MaxRows: maxFound})
	if err != nil {
		return nil, fmt.Errorf("search the steps of task %s: %w", p.step.TaskID, err)
	}
	out := make([]tool.StepHit, len(rows))
	for i, row := range rows {
		out[i] = tool.StepHit{
			StepID: row.ID, Number: row.Number, Turn: row.Turn, Tool: row.Tool, State: row.State,
			Arguments: string(row.Arguments), Observation: row.Observation,
		}
	}
	return out, nil
}
