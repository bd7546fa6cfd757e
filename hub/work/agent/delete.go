package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// UndeleteWithin is for how long a deletion can be undone. Until then the agent keeps its
// name.
const UndeleteWithin = 7 * 24 * time.Hour

// OpenTasks says what becomes of the tasks of a deleted agent that have not ended.
type OpenTasks string

// The choices. Without one, an agent with such tasks is not deleted.
const (
	// CancelTasks ends all of them.
	CancelTasks OpenTasks = "cancel"
	// FinishTasks lets those end by themselves that have started, and cancels the others.
	FinishTasks OpenTasks = "finish"
)

// maxOpenTasks bounds how many tasks of a deleted agent are cancelled in one call.
const maxOpenTasks = 10_000

// stoppedWithAgent is why a trigger is disabled whose agent was deleted. Undelete enables
// those that have it.
const stoppedWithAgent = "its agent was deleted"

// Deletion is an agent that is to be deleted.
type Deletion struct {
	// Confirm is the agent's name, typed by a person.
	Confirm string
	Reason  string
	Tasks   OpenTasks
}

// Delete deletes an agent, and returns the tasks that are to be cancelled now. It keeps
// its history: tasks, versions and audit. Nothing starts it any more: its triggers are
// disabled, so that their webhooks return 410 and their schedules stop, and no task of it
// is accepted. Deleting it again changes nothing, and returns the tasks that are left.
func (l Life) Delete(ctx context.Context, orgID, id string, d Deletion, by Applier) ([]string, error) {
	var cancel []string
	err := l.Agents.recorder.Tx(ctx, func(tx *event.Tx) error {
		// From here until the commit no task is admitted.
		if err := tx.LockAdmission(ctx, orgID); err != nil {
			return fmt.Errorf("lock admission of %s: %w", orgID, err)
		}
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if err := mayManage(ctx, tx.Queries, a, by); err != nil {
			return err
		}
		if d.Confirm != a.Name {
			return fault.New(fault.Invalid, "confirm is %q, and the agent's name is %s", d.Confirm, a.Name).WithObject(id).
				WithFix("type the agent's name")
		}
		open, err := tx.OpenTasksOfAgent(ctx, db.OpenTasksOfAgentParams{OrgID: orgID, AgentID: id, MaxRows: maxOpenTasks})
		if err != nil {
			return fmt.Errorf("list the open tasks of agent %s: %w", id, err)
		}
		if len(open) > 0 && d.Tasks != CancelTasks && d.Tasks != FinishTasks {
			return fault.New(fault.Precondition, "agent %s has %d tasks that have not ended", a.Name, len(open)).WithObject(id).
				WithFix("say what becomes of them: deckhand agent delete %s --tasks cancel, or --tasks finish to let those end that have started", a.Name)
		}
		for _, t := range open {
			if d.Tasks == CancelTasks || t.StartedAt == nil {
				cancel = append(cancel, t.ID)
			}
		}
		if a.DeletedAt != nil {
			return nil
		}
		return del(ctx, tx, a, d, by.Actor)
	})
	return cancel, err
}

func del(ctx context.Context, tx *event.Tx, a db.Agent, d Deletion, by event.Actor) error {
	why := "deleted by " + by.ID
	if reason := tx.Redact(a.OrgID).String(d.Reason); reason != "" {
		why += ": " + reason
	}
	if err := tx.TakeBackFromAgent(ctx, db.TakeBackFromAgentParams{
		OrgID: a.OrgID, AgentID: a.ID, Reason: "agent " + a.Name + " was " + why, FreshOnly: true,
	}); err != nil {
		return fmt.Errorf("requeue the tasks of agent %s: %w", a.ID, err)
	}
	stopped, err := tx.StopTriggersOfAgent(ctx, db.StopTriggersOfAgentParams{OrgID: a.OrgID, AgentID: a.ID, Reason: stoppedWithAgent})
	if err != nil {
		return fmt.Errorf("disable the triggers of agent %s: %w", a.ID, err)
	}
	if err := tx.DeleteAgent(ctx, db.DeleteAgentParams{OrgID: a.OrgID, ID: a.ID, DeletedBy: by.ID, StatusReason: why}); err != nil {
		return fmt.Errorf("delete agent %s: %w", a.ID, err)
	}
	if err := stop.Withdraw(ctx, tx.Queries, a.OrgID, stop.Suspended, a.ID, "agent "+a.Name+" was deleted by "+by.ID); err != nil {
		return err
	}
	tx.Publish(change.QueueChanged{OrgID: a.OrgID})
	triggers := make([]any, len(stopped))
	for i, name := range stopped {
		triggers[i] = name
	}
	return audit.Append(tx, audit.Entry{
		OrgID: a.OrgID, By: by, Action: "agent.deleted", ObjectKind: "agent", ObjectID: a.ID, Reason: d.Reason,
		Before: map[string]any{"name": a.Name, "version": a.CurrentVersion, "status": a.Status}, After: map[string]any{"triggers": triggers, "tasks": string(d.Tasks)},
	})
}

// Undelete undoes a deletion, and returns the ids of the triggers that it had disabled and
// that still are. Repeating it changes nothing, and returns those that are left.
func (l Life) Undelete(ctx context.Context, orgID, id string, by Applier) (triggers []string, err error) {
	if err := released(ctx, l.Agents, orgID); err != nil {
		return nil, err
	}
	err = l.Agents.recorder.Tx(ctx, func(tx *event.Tx) error {
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if err := mayManage(ctx, tx.Queries, a, by); err != nil {
			return err
		}
		switch {
		case a.DeletedAt == nil:
			if triggers, err = stoppedTriggers(ctx, tx, a); err == nil && len(triggers) == 0 {
				err = fault.New(fault.Precondition, "agent %s is not deleted", a.Name).WithObject(id)
			}
			return err
		case a.Released:
			return fault.New(fault.Precondition, "agent %s was deleted on %s, and a deletion can be undone for %d days", a.Name,
				a.DeletedAt.UTC().Format(time.DateOnly), int(UndeleteWithin.Hours()/24)).WithObject(id). //nolint:mnd // hours of a day
				WithFix("apply its persona again, which this shows: deckhand agent show %s --version %d", id, a.CurrentVersion)
		}
		if triggers, err = stoppedTriggers(ctx, tx, a); err != nil {
			return err
		}
		if err := tx.UndeleteAgent(ctx, db.UndeleteAgentParams{OrgID: orgID, ID: id}); err != nil {
			return fmt.Errorf("undelete agent %s: %w", id, err)
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by.Actor, Action: "agent.undeleted", ObjectKind: "agent", ObjectID: id,
			Before: map[string]any{"deleted_by": a.DeletedBy}, After: map[string]any{"name": a.Name},
		})
	})
	return triggers, err
}

// stoppedTriggers returns the ids of the triggers that were disabled because their agent was
// deleted.
func stoppedTriggers(ctx context.Context, tx *event.Tx, a db.Agent) ([]string, error) {
	ids, err := tx.TriggersStoppedWithAgent(ctx, db.TriggersStoppedWithAgentParams{OrgID: a.OrgID, AgentID: a.ID, Reason: stoppedWithAgent})
	if err != nil {
		return nil, fmt.Errorf("list the triggers of agent %s: %w", a.ID, err)
	}
	return ids, nil
}

// Release frees the names of agents of all organisations whose deletion can no longer be
// undone.
func (s *Service) Release(ctx context.Context) error { return released(ctx, s, "") }

// released is Release in one organisation.
func released(ctx context.Context, s *Service, orgID string) error {
	if _, err := s.store.ReleaseAgents(ctx, db.ReleaseAgentsParams{OrgID: orgID, Kept: UndeleteWithin}); err != nil {
		return fmt.Errorf("free the names of deleted agents: %w", err)
	}
	return nil
}

// deleted is why a deleted agent does nothing.
func deleted(a db.Agent) error {
	e := fault.New(fault.NotFound, "agent %s was deleted by %s on %s", a.Name, a.DeletedBy, a.DeletedAt.UTC().Format(time.DateOnly)).WithObject(a.ID)
	if a.Released {
		return e
	}
	return e.WithFix("until %s this can be undone: deckhand agent undelete %s", a.DeletedAt.Add(UndeleteWithin).UTC().Format(time.DateOnly), a.Name)
}

// Startable refuses new tasks for an agent that is deleted or disabled.
func Startable(a db.Agent) error {
	switch {
	case a.DeletedAt != nil:
		return deleted(a)
	case a.Status == Disabled:
		e := fault.New(fault.Precondition, "agent %s is %s", a.Name, a.StatusReason).WithObject(a.ID)
		return e.WithFix("let it take tasks again: deckhand agent enable %s", a.Name)
	}
	return nil
}
