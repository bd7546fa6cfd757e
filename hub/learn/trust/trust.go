// Package trust records which tasks have read text that anybody may have written: a web page,
// the output of a command with network access, what a trigger delivered. What such a task
// stores for others is not to be used before a person has confirmed it.
//
// Mark is called before a tool returns such text, so that a crash cannot lose the mark. Lost
// reports it for a task's whole lineage, since what one of its tasks reads reaches the others as
// a goal, a summary, a transcript or a file. A mark is never taken back.
package trust

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Mark records that a task reads such text.
func Mark(ctx context.Context, q *db.Queries, orgID, taskID string) error {
	if err := q.MarkTaskUntrusted(ctx, db.MarkTaskUntrustedParams{OrgID: orgID, ID: taskID}); err != nil {
		return fmt.Errorf("mark that task %s reads untrusted text: %w", taskID, err)
	}
	return nil
}

// Lost reports whether a task, or another of its lineage, has read such text. It is true for a
// task that does not exist.
func Lost(ctx context.Context, q *db.Queries, orgID, taskID string) (bool, error) {
	lost, err := q.TaskUntrusted(ctx, db.TaskUntrustedParams{OrgID: orgID, ID: taskID})
	if err != nil {
		return true, fmt.Errorf("look what task %s has read: %w", taskID, err)
	}
	return lost, nil
}
