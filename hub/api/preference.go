package api

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// preferred applies the caller's preferences to a submission that says nothing else: more
// approvals, and less time. Neither takes away what persona and policy ask for.
func preferred(ctx context.Context, h *Tasks, id auth.Identity, agentID string, o *task.Override) error {
	if agentID == "" || o.Chat {
		return nil
	}
	prefer, err := h.Memories.PreferencesOf(ctx, id.OrgID, id.UserName)
	if err != nil || prefer.Confirmation != memory.ConfirmAlways && prefer.Timeout == 0 {
		return err
	}
	row, err := h.Agents.Get(ctx, id.OrgID, agentID)
	if err != nil {
		return err
	}
	p, err := h.Agents.PersonaOf(ctx, h.Store.Queries, id.OrgID, agentID, row.Agent.CurrentVersion)
	if err != nil {
		return err
	}
	if prefer.Confirmation == memory.ConfirmAlways && o.Mode == "" && p.Mode.Below(persona.Supervised) {
		o.Mode = persona.Supervised
	}
	if o.Limits.ActiveTime == 0 && prefer.Timeout > 0 && prefer.Timeout < p.Limits.ActiveTime {
		o.Limits.ActiveTime = prefer.Timeout
	}
	return nil
}
