package event

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// titleLength is how many characters of a text a moment has.
const titleLength = 200

// momentKinds are the kinds of events that the index of a history has. Those of phases,
// checkpoints and progress are left out: iteration_complete says the same once.
var momentKinds = kindNames(
	eventkind.TaskSubmitted, eventkind.StateChanged, eventkind.ExecutionStarted, eventkind.ExecutionResumed,
	eventkind.ExecutionCompleted, eventkind.ExecutionFailed, eventkind.ExecutionCancelled, eventkind.ExecutionPaused,
	eventkind.Thinking, eventkind.IterationComplete, eventkind.PlanUpdated,
	eventkind.ToolSelected, eventkind.ToolDenied, eventkind.ToolDeferred, eventkind.ToolRejected, eventkind.ToolExecuting, eventkind.ToolCompleted,
	eventkind.ApprovalRequested, eventkind.InputRequired, eventkind.OutcomeUnknown, eventkind.ReviewRequested,
	eventkind.InboxAnswered, eventkind.InboxExpired, eventkind.MessageReceived,
	eventkind.LimitWarning, eventkind.LimitReached, eventkind.EgressRefused, eventkind.AgentRetry, eventkind.TaskEscalated,
	eventkind.AgentSubtaskCreated, eventkind.AgentSubtaskEnded, eventkind.AgentHandedOver, eventkind.ModelFailover, eventkind.ModelOutage,
	eventkind.ContextSummarized, eventkind.JobStarted, eventkind.JobEnded, eventkind.WorkspaceUndone, eventkind.WorkspaceRestored,
)

func kindNames(kinds ...eventkind.Kind) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = string(k)
	}
	return out
}

// Moments returns the first n entries of the index of a task's history after a number,
// in order.
func (w *Watcher) Moments(ctx context.Context, orgID, taskID string, after int64, n int32) ([]db.TaskMomentsRow, error) {
	rows, err := w.cfg.Store.TaskMoments(ctx, db.TaskMomentsParams{
		TaskID: taskID, OrgID: orgID, AfterSeq: after, Types: momentKinds, TitleLength: titleLength, MaxRows: n,
	})
	if err != nil {
		return nil, fmt.Errorf("read the index of %s after %d: %w", taskID, after, err)
	}
	return rows, nil
}

// NewestMoments returns the last n entries of the index of a task's history, in order.
func (w *Watcher) NewestMoments(ctx context.Context, orgID, taskID string, n int32) ([]db.TaskMomentsRow, error) {
	before, err := w.cfg.Store.TaskMomentBefore(ctx, db.TaskMomentBeforeParams{TaskID: taskID, OrgID: orgID, Types: momentKinds, Newest: n})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("find the newest entries of the index of %s: %w", taskID, err)
	}
	return w.Moments(ctx, orgID, taskID, before, n)
}
