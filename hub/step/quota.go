package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// overQuota refuses a call of a task that has made all calls that the quota of tool calls grants
// it; nil for none. The call that completes the task is always possible.
func overQuota(ctx context.Context, q *db.Queries, t db.Task, record *tool.Tool) (*fault.Error, error) {
	if t.GrantedToolCalls == nil || record.Name == toolname.CompleteTask {
		return nil, nil
	}
	made, err := q.CountCalls(ctx, db.CountCallsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return nil, fmt.Errorf("count the calls of %s: %w", t.ID, err)
	}
	if made < *t.GrantedToolCalls {
		return nil, nil
	}
	return fault.New(fault.Exhausted, "the run has made the %d tool calls that the quota leaves it", *t.GrantedToolCalls).WithCode(fault.BudgetLimit).
		WithFix("complete the task, and say in your summary what is left to do"), nil
}
