package admission

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// user is the task that keeps a jail from others, and a text about how.
type user struct {
	task, how string
	// waits reports that the task waits for others, which may use the workspace until
	// then.
	waits bool
}

const (
	usesWorkspace  = "task %s is using the agent's workspace; waits for it to end"
	keepsWorkspace = "task %s has begun in the agent's workspace and will go on there; waits for it to end: resume, answer or cancel it"
	beingKilled    = "what task %s left running in the workspace has not been seen to end; waits for its node to say so"
)

// busyJails returns the user of each jail that is not free. A task is not blocked by the
// jail that it uses itself.
func busyJails(ctx context.Context, q *db.Queries, orgID string, active []db.ActiveTasksRow) (map[string]user, error) {
	kept, err := q.KeptJails(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read kept jails: %w", err)
	}
	busy := make(map[string]user, len(active)+len(kept))
	for _, k := range kept {
		how := keepsWorkspace
		if k.Killed {
			how = beingKilled
		}
		busy[k.JailID] = user{k.ID, how, k.Waits}
	}
	for _, b := range active {
		busy[b.JailID] = user{task: b.ID, how: usesWorkspace}
	}
	return busy, nil
}
