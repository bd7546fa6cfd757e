package agent

import (
	"cmp"
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Life changes what becomes of agents as such: whose they are, whether they take tasks,
// their names and versions, and their end.
type Life struct{ Agents *Service }

// Disable has an agent take no new tasks: submissions are refused, and what its triggers
// start fails. Tasks that have started continue; queued ones wait. Disabling it again
// changes the reason. Only its owners and administrators may.
func (l Life) Disable(ctx context.Context, orgID, id, reason string, by Applier) error {
	return l.Agents.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockAdmission(ctx, orgID); err != nil {
			return fmt.Errorf("lock admission of %s: %w", orgID, err)
		}
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if err := cmp.Or(mayManage(ctx, tx.Queries, a, by), there(a)); err != nil {
			return err
		}
		why := "disabled by " + by.ID
		if reason = tx.Redact(orgID).String(reason); reason != "" {
			why += ": " + reason
		}
		if err := tx.TakeBackFromAgent(ctx, db.TakeBackFromAgentParams{
			OrgID: orgID, AgentID: id, Reason: WaitReason(a.Name, Disabled, why), FreshOnly: true,
		}); err != nil {
			return fmt.Errorf("requeue the tasks of agent %s: %w", id, err)
		}
		if err := stop.Withdraw(ctx, tx.Queries, orgID, stop.Suspended, id, "agent "+a.Name+" was disabled by "+by.ID); err != nil {
			return err
		}
		return set(ctx, tx, a, Disabled, why, "agent.disabled", reason, by.Actor)
	})
}

// Enable lets a disabled agent take tasks again. Enabling one that is not disabled changes
// nothing.
func (l Life) Enable(ctx context.Context, orgID, id string, by Applier) error {
	return l.Agents.recorder.Tx(ctx, func(tx *event.Tx) error {
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if err := cmp.Or(mayManage(ctx, tx.Queries, a, by), there(a)); err != nil || a.Status != Disabled {
			return err
		}
		if err := tx.AgentGoesOn(ctx, db.AgentGoesOnParams{
			OrgID: orgID, AgentID: id, Was: WaitReason(a.Name, a.Status, a.StatusReason), Reason: "agent " + a.Name + " was enabled; waits for its turn",
		}); err != nil {
			return fmt.Errorf("update the tasks that wait for agent %s: %w", id, err)
		}
		return set(ctx, tx, a, Idle, "", "agent.enabled", "", by.Actor)
	})
}

// there refuses an agent that was deleted.
func there(a db.Agent) error {
	if a.DeletedAt != nil {
		return deleted(a)
	}
	return nil
}
