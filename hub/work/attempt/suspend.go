package attempt

import (
	"context"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// notItsOwn are the ends that say nothing about an agent: its provider, its node, the hub
// or a person was the reason; or a part is done.
var notItsOwn = []fault.Code{
	fault.PartlyDone, fault.ModelUnavailable, fault.CredentialInvalid, fault.NoCredentials, fault.UnpricedModel, fault.RateLimited,
	fault.NodeUnavailable, fault.NodeLocked, fault.HubUnavailable, fault.Killed, fault.InputTimeout, fault.ApprovalExpired,
}

// judge suspends an agent of which several tasks in a row failed for reasons of its own: at
// a limit, in circles in spite of a nudge, or in any other way. One task counts once.
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
	if why == "" && (end.State != task.Failed || slices.Contains(notItsOwn, fault.Code(end.ErrorCode))) {
		return nil
	}
	a, err := tx.CountAgentFailure(ctx, db.CountAgentFailureParams{OrgID: t.OrgID, ID: t.AgentID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("count a failure of agent %s: %w", t.AgentID, err)
	}
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	if int(a.Failures) < p.Limits.Failures {
		return nil
	}
	if why != "" {
		why = ": it " + why
	}
	return agent.Suspend(ctx, tx, t, fmt.Sprintf("task %s was the last of %d in a row that failed%s (deckhand task show %s)", t.ID, a.Failures, why, t.ID))
}
