package agent

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Successor stores the version of an agent that follows one, with another persona file, and
// has the tasks that run with that one go on with it. It is a precondition that no other
// version was applied meanwhile. The new version belongs to the user who applied the one
// before, so that its runs may do what those of that one may.
//
// It locks the tasks, and then the agent: the caller has locked neither an inbox item nor
// the agent.
func (s *Service) Successor(ctx context.Context, tx *event.Tx, orgID, agentID string, base int32, markdown string) (func(reason string, by event.Actor) error, error) {
	if _, err := tx.LockOpenTasksOfVersion(ctx, db.LockOpenTasksOfVersionParams{OrgID: orgID, AgentID: agentID, Version: base}); err != nil {
		return nil, fmt.Errorf("lock the tasks of agent %s: %w", agentID, err)
	}
	a, err := lock(ctx, tx, orgID, agentID)
	if err != nil {
		return nil, err
	}
	if a.CurrentVersion != base {
		return nil, fault.New(fault.Precondition, "agent %s has version %d by now: what you saw was made from version %d", a.Name, a.CurrentVersion, base).
			WithObject(agentID).WithFix("look again, and decide on what it is now")
	}
	return func(reason string, by event.Actor) error { return succeed(ctx, s, tx, a, markdown, reason, by) }, nil
}

// succeed stores the successor of an agent's current version.
func succeed(ctx context.Context, s *Service, tx *event.Tx, a db.Agent, markdown, reason string, by event.Actor) error {
	before, err := tx.AgentVersion(ctx, db.AgentVersionParams{OrgID: a.OrgID, AgentID: a.ID, Version: a.CurrentVersion})
	if err != nil {
		return fmt.Errorf("load version %d of %s: %w", a.CurrentVersion, a.ID, err)
	}
	f := File{Name: a.Name + ".md", Markdown: markdown, Script: before.Script}
	p, err := s.Parse(f)
	if err != nil {
		return err
	}
	org, err := tx.OrganisationByID(ctx, a.OrgID)
	if err != nil {
		return fmt.Errorf("load organisation %s: %w", a.OrgID, err)
	}
	if err := organisation.Ceiling(org).Allows(organisation.JailOf(p)); err != nil {
		return err
	}
	version, digest := a.CurrentVersion+1, digestOf(f)
	if err := tx.CreateAgentVersion(ctx, db.CreateAgentVersionParams{
		AgentID: a.ID, Version: version, OrgID: a.OrgID, Markdown: markdown, Script: before.Script, Digest: digest, Description: before.Description,
		Provider: before.Provider, Model: before.Model, CreatedBy: before.CreatedBy, CreatedByRole: before.CreatedByRole, TaskType: before.TaskType,
	}); err != nil {
		return fmt.Errorf("store version %d of %s: %w", version, a.ID, err)
	}
	if err := tx.SetAgentVersion(ctx, db.SetAgentVersionParams{OrgID: a.OrgID, ID: a.ID, Version: version}); err != nil {
		return fmt.Errorf("set version %d of %s: %w", version, a.ID, err)
	}
	moved, err := tx.MoveOpenTasksToVersion(ctx, db.MoveOpenTasksToVersionParams{OrgID: a.OrgID, AgentID: a.ID, FromVersion: a.CurrentVersion, ToVersion: version})
	if err != nil {
		return fmt.Errorf("have the tasks of %s go on with version %d: %w", a.ID, version, err)
	}
	if err := withdrawAllowed(ctx, tx, a, version, p); err != nil {
		return err
	}
	return audit.Append(tx, audit.Entry{
		OrgID: a.OrgID, By: by, Action: "agent.applied", ObjectKind: "agent", ObjectID: a.ID, Reason: reason,
		Before: map[string]any{"version": a.CurrentVersion},
		After:  map[string]any{"name": a.Name, "version": version, "digest": digest, "applied_for": before.CreatedBy, "tasks": moved},
	})
}

// withdrawAllowed withdraws the items about refused hosts that a new version allows.
func withdrawAllowed(ctx context.Context, tx *event.Tx, a db.Agent, version int32, p *persona.Persona) error {
	items, err := tx.OpenStopsOfAgent(ctx, db.OpenStopsOfAgentParams{OrgID: a.OrgID, AgentID: a.ID, Kind: string(stop.Egress)})
	if err != nil {
		return fmt.Errorf("list the refused hosts of %s: %w", a.ID, err)
	}
	for _, item := range items {
		d, err := stop.DetailOf(item)
		if err != nil {
			return err
		}
		target, err := d.Target()
		if err != nil || p.Egress.Match(target, allowlist.Opaque) != nil {
			continue
		}
		if err := stop.Withdraw(ctx, tx.Queries, a.OrgID, stop.Egress, item.Subject, fmt.Sprintf("version %d of agent %s allows it", version, a.Name)); err != nil {
			return err
		}
	}
	return nil
}
