package step

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// stepSearch searches the history of a step's task. It implements tool.StepSearcher.
type stepSearch struct {
	store *store.Store
	node  func(nodeID string) (machine.Link, error)
	step  db.Step
}

const (
	// maxFound is the number of steps that a search returns at most.
	maxFound = 40
	// maxOutputs is how many long outputs one search goes through, the newest, and
	// outputsTime how long it takes at most.
	maxOutputs  = 20
	outputsTime = 15 * time.Second
	// Of one output, so many places of a word are looked at, with the lines around them.
	maxPlaces   = 100
	linesAround = 5
)

// Steps implements tool.StepSearcher.
func (p stepSearch) Steps(ctx context.Context, words []string) ([]tool.StepHit, error) {
	rows, err := p.store.SearchSteps(ctx, db.SearchStepsParams{OrgID: p.step.OrgID, TaskID: p.step.TaskID, NotOf: p.step.Tool, Words: words, MaxRows: maxFound})
	if err != nil {
		return nil, fmt.Errorf("search the steps of task %s: %w", p.step.TaskID, err)
	}
	out := make([]tool.StepHit, len(rows))
	for i, row := range rows {
		out[i] = tool.StepHit{
			StepID: row.ID, Number: row.Number, Turn: row.Turn, Tool: row.Tool, State: row.State,
			Text: string(row.Arguments) + "\n" + row.Observation,
		}
	}
	return out, nil
}

// Outputs implements tool.StepSearcher.
func (p stepSearch) Outputs(ctx context.Context, words []string) (found []tool.StepHit, unread int, err error) {
	rows, err := p.store.LongOutputs(ctx, db.LongOutputsParams{OrgID: p.step.OrgID, TaskID: p.step.TaskID, MoreThan: tool.ShownOutput, MaxRows: maxOutputs})
	if err != nil {
		return nil, 0, fmt.Errorf("find the outputs of task %s: %w", p.step.TaskID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, outputsTime)
	defer cancel()
	for _, row := range rows {
		node, err := p.node(*row.NodeID)
		if err != nil {
			unread++
			continue
		}
		matches, err := p.rarest(ctx, node, row.ExecID, words)
		if err != nil {
			unread++ // its log may be gone; the others are searched
			continue
		}
		for _, m := range matches {
			found = append(found, tool.StepHit{
				StepID: row.ID, Number: row.Number, Turn: row.Turn, Tool: row.Tool, State: row.State,
				Text: string(m.GetExcerpt()), Output: true, Offset: m.GetExcerptOffset(),
			})
		}
	}
	return found, unread, nil
}

// rarest returns the places of the word that an output has the fewest times, with the lines
// around them: the others must be there. None if one of the words is not in the output.
func (p stepSearch) rarest(ctx context.Context, node machine.Link, execID string, words []string) ([]*nodev1.LogMatch, error) {
	var few []*nodev1.LogMatch
	for i, word := range words {
		res, err := node.Exec().SearchLog(ctx, &nodev1.SearchLogRequest{
			ExecId: execID, Pattern: word, IgnoreCase: true, MaxMatches: maxPlaces, ContextLines: linesAround, Caller: p.step.TaskID,
		})
		if err != nil {
			return nil, err
		}
		if i == 0 || len(res.GetMatches()) < len(few) {
			few = res.GetMatches()
		}
		if len(few) == 0 && res.GetComplete() {
			break
		}
	}
	return few, nil
}
