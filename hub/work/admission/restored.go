package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// restoredTasks returns the tasks that do not start since the hub was restored to an earlier state,
// and why: their nodes have not said yet what ran after that, or a person has not
// looked at what did.
func restoredTasks(ctx context.Context, q *db.Queries, orgID string) (map[string]string, error) {
	rows, err := q.RestoreHolds(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read what waits after a restore: %w", err)
	}
	var held map[string]string
	for _, row := range rows {
		if held == nil {
			held = make(map[string]string, len(rows))
		}
		why := row.Reason
		switch {
		case why != "":
		case row.Nodes != "":
			why = fmt.Sprintf("the hub was restored to its state of %s, and what ran since on these nodes is not known yet: %s; start deckhand-node there, or revoke a node that is gone: deckhand node revoke",
				row.TakenAt.UTC().Format(time.RFC3339), row.Nodes)
		default:
			why = "the hub was restored to an earlier state, and compares the task with its nodes"
		}
		held[row.TaskID] = why
	}
	return held, nil
}
