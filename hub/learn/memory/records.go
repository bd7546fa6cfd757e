package memory

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// recordTools are the tools whose calls and results have memories in them.
var recordTools = []string{toolname.MemoryStore, toolname.MemoryRetrieve, toolname.MemoryForget}

// purgeRecords deletes what a user's tasks that called those tools, or were told what only the
// user reads, have left, as retention does: transcripts, checkpoints, arguments, results,
// approvals and events. It returns the number of calls, and an error if such a task goes on.
// A task on legal hold keeps everything.
func purgeRecords(ctx context.Context, tx *event.Tx, orgID, userID, userName string) (int64, error) {
	rows, err := tx.TasksWithMemories(ctx, db.TasksWithMemoriesParams{OrgID: orgID, UserID: userID, UserName: userName, Tools: recordTools})
	if err != nil {
		return 0, fmt.Errorf("find the tasks of %s that have memories: %w", userName, err)
	}
	var tasks []string
	for _, row := range rows {
		if row.Live {
			return 0, fault.New(fault.Precondition, "task %s of %s goes on and knows entries of the memory", row.ID, userName).
				WithFix("wait for its end, or cancel it: deckhand task cancel %s", row.ID).WithObject(row.ID)
		}
		tasks = append(tasks, row.ID)
	}
	if len(tasks) == 0 {
		return 0, nil
	}
	for _, id := range tasks {
		if err := tx.PruneEvents(ctx, db.PruneEventsParams{OrgID: orgID, TaskID: id}); err != nil {
			return 0, fmt.Errorf("delete the events of task %s: %w", id, err)
		}
	}
	if _, err := tx.CollectTurns(ctx, db.CollectTurnsParams{OrgID: orgID, Tasks: tasks}); err != nil {
		return 0, fmt.Errorf("delete transcripts: %w", err)
	}
	if err := tx.DeleteCheckpointsOf(ctx, db.DeleteCheckpointsOfParams{OrgID: orgID, Tasks: tasks}); err != nil {
		return 0, fmt.Errorf("delete checkpoints: %w", err)
	}
	if _, err := tx.CollectInbox(ctx, db.CollectInboxParams{OrgID: orgID, Tasks: tasks}); err != nil {
		return 0, fmt.Errorf("delete approvals: %w", err)
	}
	n, err := tx.CollectSteps(ctx, db.CollectStepsParams{OrgID: orgID, Tasks: tasks})
	if err != nil {
		return 0, fmt.Errorf("delete arguments and results: %w", err)
	}
	return n, nil
}
