package step

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// maxRecords is the number of tasks whose written files a hub keeps in memory. An evicted
// record is rebuilt from the task's steps.
const maxRecords = 256

// records caches what tasks have written, so that each of their steps is read once.
type records struct {
	mu sync.Mutex
	by map[string]written
}

// written is what a task has written up to a step; all steps up to it have ended.
type written struct {
	number int32
	record shell.Record
}

func newRecords() *records { return &records{by: map[string]written{}} }

func (r *records) get(taskID string) written {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[taskID]
}

func (r *records) put(taskID string, w written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.by[taskID]; !ok && len(r.by) >= maxRecords {
		for other := range r.by {
			delete(r.by, other)
			break
		}
	}
	if r.by[taskID].number < w.number {
		r.by[taskID] = w
	}
}

// writtenAtOnce is how many steps are read in one query.
const writtenAtOnce = 500

// writtenBefore returns what is known of the files that a task has written, with file
// tools and scripts, before a step, or in all of its steps if before is 0. Steps that
// have not run yet count: a call that is decided now may run after them. settled reports
// that there are no such steps.
func (s *Steps) writtenBefore(ctx context.Context, q *db.Queries, t db.Task, before int32) (record shell.Record, settled bool, err error) {
	from := s.written.get(t.ID)
	if before > 0 && from.number >= before {
		from = written{}
	}
	for settled = true; ; {
		rows, err := q.WritingSteps(ctx, db.WritingStepsParams{OrgID: t.OrgID, TaskID: t.ID, After: from.number, Before: before, Tools: policy.WritingTools(), MaxRows: writtenAtOnce})
		if err != nil {
			return shell.Record{}, false, fmt.Errorf("read what task %s wrote: %w", t.ID, err)
		}
		for _, row := range rows {
			raw, err := s.arguments(db.Step{ID: row.ID, ArgumentsSealed: row.ArgumentsSealed, ChangedSealed: row.ChangedSealed})
			if err != nil {
				return shell.Record{}, false, err
			}
			call := policy.Call{Tool: row.Tool, Written: from.record}
			if json.Unmarshal(raw, &call.Arguments) == nil {
				from.record = call.After()
			}
			from.number = row.Number
			if settled = settled && State(row.State).Ended(); settled {
				s.written.put(t.ID, from)
			}
		}
		if len(rows) < writtenAtOnce {
			return from.record, settled, nil
		}
	}
}
