package attempt

import (
	"context"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// LowerByQuota lowers the limits of a claimed run to what quotas grant it, and returns the names
// of those that it has lowered. turns are what the run goes on with: those of the tasks that it
// was resumed from count against the run's limit of tokens, and not against the quota.
func LowerByQuota(t db.Task, limits *deckhandv1.TaskLimits, turns []*deckhandv1.Turn) (lowered []string) {
	if t.GrantedIterations != nil {
		if most := int64(t.ResumedAt) + *t.GrantedIterations; most < int64(limits.GetIterations()) {
			limits.Iterations = int32(most) //nolint:gosec // below one
			lowered = append(lowered, "iterations")
		}
	}
	if t.GrantedTokens != nil {
		most := *t.GrantedTokens
		for _, turn := range turns {
			if turn.GetTurn() <= t.ResumedAt || t.ResumedTurn && turn.GetTurn() == t.ResumedAt+1 {
				most += turn.GetUsage().GetLimitTokens()
			}
		}
		if most < limits.GetTokens() {
			limits.Tokens = most
			lowered = append(lowered, "tokens")
		}
	}
	return lowered
}

// quotaEnded reports whether a run has ended at a limit that a quota had lowered when it was
// claimed. At the limit of its persona, or of the task, it ends as they say.
func quotaEnded(t db.Task, end Outcome) bool {
	return end.Limit != "" && slices.Contains(t.QuotaLimits, end.Limit)
}

// waitForQuota puts a run that has used what a quota left it back into the queue, where it waits
// for more.
func (r *Reports) waitForQuota(ctx context.Context, tx *event.Tx, t db.Task, end Outcome, by event.Actor) error {
	if b := end.Boundary; b != nil {
		if _, err := r.checkpoint(ctx, tx, t, *b); err != nil {
			return err
		}
	}
	events, _ := withoutEnd(end.Events)
	if err := tx.Append(t.OrgID, t.ID, by, events...); err != nil {
		return err
	}
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err := task.Requeue(ctx, tx, t, "the run has used the "+end.Limit+" that the quota left it; waits for more (deckhand quota show)", "released", by)
	return err
}
