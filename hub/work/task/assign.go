package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Assignee is the agent or person that a task is assigned to; empty for neither. A task
// of an agent that a person must decide on has both.
type Assignee struct {
	AgentID string
	// Human is a user's name.
	Human string
}

// runs is what a task runs with.
type runs struct {
	agentID, name, provider, model string
	// goal is that of a task that is submitted with none.
	goal        string
	version     int32
	scope, jail string
}

// runsOn returns what a task of an agent that v sees runs with; nothing without an agent.
func (s *Service) runsOn(ctx context.Context, v visibility.Viewer, agentID, taskID string) (runs, error) {
	if agentID == "" {
		return runs{scope: string(persona.ScopeTask)}, nil
	}
	orgID := v.OrgID
	seen, err := visibility.Sees(ctx, s.cfg.Store.Queries, v, agentID)
	if err != nil {
		return runs{}, err
	}
	if !seen {
		return runs{}, fault.New(fault.NotFound, "there is no agent %q", agentID).WithFix("list what there is with: deckhand agent list").WithObject(agentID)
	}
	row, err := s.cfg.Agents.Get(ctx, orgID, agentID)
	if err != nil {
		return runs{}, err
	}
	if err := agent.Startable(row.Agent); err != nil {
		return runs{}, err
	}
	version, err := s.cfg.Agents.Version(ctx, orgID, agentID, row.Agent.CurrentVersion)
	if err != nil {
		return runs{}, err
	}
	p, err := s.cfg.Agents.Persona(version.Digest, version.Markdown)
	if err != nil {
		return runs{}, fmt.Errorf("agent %s: %w", agentID, err)
	}
	r := runs{
		agentID: agentID, name: row.Agent.Name, provider: version.Provider, model: version.Model, version: version.Version,
		scope: string(p.Workspace.Scope), jail: AgentJail(agentID), goal: p.Goal,
	}
	if p.Workspace.Scope == persona.ScopeTask {
		r.apart(taskID)
	}
	return r, nil
}

// startable is agent.Startable for a task that the transaction stores, until whose end nobody
// deletes or disables the agent: a task of one that was would wait for ever.
func startable(ctx context.Context, tx *event.Tx, orgID, agentID string) error {
	if agentID == "" {
		return nil
	}
	a, err := tx.StartableAgent(ctx, db.StartableAgentParams{OrgID: orgID, ID: agentID})
	if err != nil {
		return fmt.Errorf("lock agent %s: %w", agentID, err)
	}
	return agent.Startable(a)
}

// FindUser returns a user's name as it is stored.
func (s *Service) FindUser(ctx context.Context, orgID, name string) (string, error) {
	u, err := s.cfg.Store.UserByName(ctx, db.UserByNameParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return "", fault.New(fault.NotFound, "there is no user %q", name).WithFix("give a user's name as @human:NAME").WithObject(name)
	}
	if err != nil {
		return "", fmt.Errorf("find user %s: %w", name, err)
	}
	return u.Name, nil
}

// Assign assigns a task. One that has not started goes to an agent, which queues it, to a
// person, or to neither; one that has started can only be assigned to a person to decide
// on. The task is limited by the roles of both its submitter and the assigning user.
func (s *Service) Assign(ctx context.Context, orgID, id string, to Assignee, by event.Actor, role string) error {
	given, err := s.runsOn(ctx, visibility.As(orgID, by.ID, role), to.AgentID, id)
	if err != nil {
		return err
	}
	if err := s.usable(ctx, orgID, given.name, given.provider, given.model); err != nil {
		return err
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		// A queued task must not be admitted at the same time.
		if err := tx.LockAdmission(ctx, orgID); err != nil {
			return fmt.Errorf("lock admission: %w", err)
		}
		if err := startable(ctx, tx, orgID, to.AgentID); err != nil {
			return err
		}
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", id, err)
		}
		if o, err := OverrideOf(t); err != nil {
			return err
		} else if o.Chat {
			given.apart(id)
		}
		was := State(t.State)
		fresh := was == Pending || (was == Queued && t.AdmittedAt == nil && t.StartedAt == nil)
		params := db.AssignTaskParams{
			OrgID: orgID, ID: id, AgentID: given.agentID, AgentVersion: given.version, WorkspaceScope: given.scope, JailID: given.jail,
			Assignee: to.Human, AssignedBy: by.ID, CreatedByRole: lesserRole(t.CreatedByRole, role),
		}
		switch {
		case was.Final():
			return refuse(id, was, Queued)
		case !fresh && (to.AgentID != "" || to.Human == ""):
			return fault.New(fault.Precondition, "task %s is %s and has started with its agent", id, was).
				WithFix("give it to a person, or retry it with another agent").WithObject(id)
		case was == Queued && fresh && to.AgentID == "":
			return fault.New(fault.Precondition, "task %s is queued for its agent", id).
				WithFix("cancel it and submit it for the person").WithObject(id)
		case !fresh:
			// It keeps its agent and its role: a person is assigned.
			params.AgentID, params.AgentVersion, params.WorkspaceScope, params.JailID = t.AgentID, t.AgentVersion, t.WorkspaceScope, t.JailID
			params.CreatedByRole = t.CreatedByRole
		}
		if t.AgentID == "" && to.AgentID != "" {
			if err := refuseOverQuota(ctx, s.cfg.Quota, tx, db.CreateTaskParams{OrgID: orgID, AgentID: to.AgentID, CreatedBy: t.CreatedBy}); err != nil {
				return err
			}
		}
		assigned, err := tx.AssignTask(ctx, params)
		if err != nil {
			return fmt.Errorf("assign task %s: %w", id, err)
		}
		if err := tx.Append(orgID, id, by, event.Draft{Type: eventkind.TaskAssigned, Payload: map[string]any{
			"agent": given.name, "assignee": to.Human, "by": by.ID,
		}}); err != nil {
			return err
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		if was != Pending {
			return nil
		}
		return settle(ctx, tx, assigned, by)
	})
}

// roles, least first.
var roles = []string{"viewer", "basic", "advanced", "admin"}

func lesserRole(a, b string) string {
	return roles[max(0, min(slices.Index(roles, a), slices.Index(roles, b)))]
}

// Complete ends a task that a person did by hand.
func (s *Service) Complete(ctx context.Context, orgID, id, summary string, by event.Actor) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", id, err)
		}
		if State(t.State) != Pending || t.AgentID != "" {
			return fault.New(fault.Precondition, "task %s is %s and is not one that a person does", id, t.State).
				WithFix("only a pending task of a person, or without an assignee, is completed by hand").WithObject(id)
		}
		rows, err := tx.Dependencies(ctx, db.DependenciesParams{OrgID: orgID, TaskID: id})
		if err != nil {
			return fmt.Errorf("load what %s waits for: %w", id, err)
		}
		for _, row := range rows {
			if State(row.State) != Succeeded {
				return fault.New(fault.Precondition, "task %s waits for task %s, which is %s", id, row.ID, row.State).
					WithFix("complete or cancel that one first").WithObject(row.ID)
			}
		}
		if err := tx.SetTaskResult(ctx, db.SetTaskResultParams{OrgID: orgID, ID: id, Summary: summary, Done: true}); err != nil {
			return fmt.Errorf("store result of %s: %w", id, err)
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		_, err = Move(ctx, tx, t, Succeeded, "done by hand by "+by.ID, by)
		return err
	})
}
