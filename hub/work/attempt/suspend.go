package attempt

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// judge suspends the agent of a run that ended in a way that would only come
// again: at the limit of its iterations or its cost, in circles in spite of a
// nudge, or as one of many that failed in a row.
func (r *Reports) judge(ctx context.Context, tx *event.Tx, t db.Task, end Outcome) error {
	if o, err := task.OverrideOf(t); err != nil || o.Chat {
		return err // a chat reveals nothing about the agent's work
	}
	if end.State == task.Succeeded {
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
			return q.ForgetAgentFailures(ctx, db.ForgetAgentFailuresParams{OrgID: t.OrgID, ID: t.AgentID})
		})
		return nil
	}
	why := ""
	switch {
	case end.Limit == "iterations":
		why = "reached the limit of its iterations"
	case end.Limit == "cost_usd":
		why = "reached the limit of its cost"
	case end.ErrorCode == string(fault.Stuck):
		why = "went round in circles"
	}
	if why == "" && end.State == task.Failed && end.ErrorCode != string(fault.PartlyDone) {
		a, err := tx.CountAgentFailure(ctx, db.CountAgentFailureParams{OrgID: t.OrgID, ID: t.AgentID})
		if err != nil {
			return fmt.Errorf("count a failure of agent %s: %w", t.AgentID, err)
		}
		p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
		if err != nil {
			return err
		}
		if int(a.Failures) >= p.Limits.Failures {
			why = fmt.Sprintf("was the last of %d in a row that failed", a.Failures)
		}
	}
	if why == "" {
		return nil
	}
	return agent.Suspend(ctx, tx, t, fmt.Sprintf("task %s %s (deckhand task show %s)", t.ID, why, t.ID))
}
