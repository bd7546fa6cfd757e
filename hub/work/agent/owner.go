package agent

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Ownership is whose an agent becomes, and who sees it. Empty fields change nothing.
type Ownership struct {
	// User is the name of a user, Team the id of a team: at most one of them is set.
	User, Team string
	Level      visibility.Level
}

// OwnerOf reads an owner as it is written: user:NAME, team:NAME, or a user's name alone.
func (l Life) OwnerOf(ctx context.Context, orgID, text string) (Ownership, error) {
	kind, name, cut := strings.Cut(text, ":")
	switch {
	case text == "":
		return Ownership{}, nil
	case !cut:
		kind, name = "user", text
	}
	switch kind {
	case "user":
		u, err := l.Agents.store.UserByName(ctx, db.UserByNameParams{OrgID: orgID, Name: name})
		if store.IsNotFound(err) {
			return Ownership{}, fault.New(fault.NotFound, "owner is %q, and there is no user %q", text, name).WithObject(name).WithFix("list the users with: deckhand user list")
		}
		if err != nil {
			return Ownership{}, fmt.Errorf("find user %s: %w", name, err)
		}
		return Ownership{User: u.Name}, nil
	case "team":
		rows, err := l.Agents.store.FindTeams(ctx, db.FindTeamsParams{OrgID: orgID, Ref: name, Prefix: store.Prefix("team", name)})
		id, err := store.One("team", name, rows, err)
		return Ownership{Team: id}, err
	}
	return Ownership{}, fault.New(fault.Invalid, "owner is %q", text).WithFix("use user:NAME or team:NAME")
}

// Transfer gives an agent another owner, another visibility, or both. Only its owners and
// administrators may; to a team only those who are in it, and administrators.
func (l Life) Transfer(ctx context.Context, orgID, id string, by Applier) error {
	return l.Agents.recorder.Tx(ctx, func(tx *event.Tx) error {
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if err := mayManage(ctx, tx.Queries, a, by); err != nil {
			return err
		}
		return transfer(ctx, tx, a, by)
	})
}

// transfer is Transfer of a locked agent that the caller may manage.
func transfer(ctx context.Context, tx *event.Tx, a db.Agent, by Applier) error {
	next, err := by.Ownership.on(ctx, tx.Queries, a, by)
	if err != nil || next.same(a) {
		return err
	}
	if err := tx.SetAgentOwner(ctx, next.params(a)); err != nil {
		return fmt.Errorf("give agent %s to %s: %w", a.ID, cmp.Or(next.User, next.Team), err)
	}
	return audit.Append(tx, audit.Entry{
		OrgID: a.OrgID, By: by.Actor, Action: "agent.transferred", ObjectKind: "agent", ObjectID: a.ID,
		Before: owned(Ownership{User: a.Owner, Team: store.Text(a.OwnerTeam), Level: visibility.Level(a.Visibility)}), After: owned(next),
	})
}

// on returns whose an agent is after the change.
func (o Ownership) on(ctx context.Context, q *db.Queries, a db.Agent, by Applier) (Ownership, error) {
	next := Ownership{User: a.Owner, Team: store.Text(a.OwnerTeam), Level: cmp.Or(o.Level, visibility.Level(a.Visibility), visibility.Default)}
	if o.User != "" || o.Team != "" {
		next.User, next.Team = o.User, o.Team
	}
	if next.Team == "" || next.Team == store.Text(a.OwnerTeam) || by.viewer(a.OrgID).All {
		return next, nil
	}
	in, err := q.IsTeamMember(ctx, db.IsTeamMemberParams{OrgID: a.OrgID, TeamID: next.Team, UserName: by.ID})
	if err != nil {
		return next, fmt.Errorf("look whether %s is in team %s: %w", by.ID, next.Team, err)
	}
	if !in {
		return next, fault.New(fault.Denied, "owner is a team that you are not in").WithCode(fault.PermissionDenied).WithObject(next.Team).
			WithFix("name a team of yours, or ask an administrator")
	}
	return next, nil
}

func (o Ownership) same(a db.Agent) bool {
	return o.User == a.Owner && o.Team == store.Text(a.OwnerTeam) && string(o.Level) == a.Visibility
}

func (o Ownership) params(a db.Agent) db.SetAgentOwnerParams {
	p := db.SetAgentOwnerParams{OrgID: a.OrgID, ID: a.ID, Owner: o.User, Visibility: string(o.Level)}
	if o.Team != "" {
		p.OwnerTeam = &o.Team
	}
	return p
}

func owned(o Ownership) map[string]any {
	out := map[string]any{"visibility": string(o.Level)}
	if o.Team != "" {
		out["owner_team"] = o.Team
	} else {
		out["owner"] = o.User
	}
	return out
}

// mayManage refuses callers who neither own an agent nor are administrators.
func mayManage(ctx context.Context, q *db.Queries, a db.Agent, by Applier) error {
	yes, err := visibility.Owns(ctx, q, by.viewer(a.OrgID), a.ID)
	if err != nil || yes {
		return err
	}
	whose, err := ownerName(ctx, q, a)
	if err != nil {
		return err
	}
	return fault.New(fault.Denied, "agent %s is %s's", a.Name, whose).WithCode(fault.PermissionDenied).WithObject(a.ID).
		WithFix("ask them or an administrator, or duplicate it: deckhand agent duplicate %s NEW-NAME", a.Name)
}

// ownerName returns who owns an agent, for people.
func ownerName(ctx context.Context, q *db.Queries, a db.Agent) (string, error) {
	if a.OwnerTeam == nil {
		return a.Owner, nil
	}
	t, err := q.GetTeam(ctx, db.GetTeamParams{OrgID: a.OrgID, ID: *a.OwnerTeam})
	if err != nil {
		return "", fmt.Errorf("load team %s: %w", *a.OwnerTeam, err)
	}
	return "team " + t.Team.Name, nil
}

// named locks the agent of a name for the user who applies its persona, and creates it if
// no agent has the name.
func named(ctx context.Context, tx *event.Tx, orgID, name string, by Applier) (db.Agent, error) {
	if err := neverHad(ctx, tx, orgID, name, by); err != nil {
		return db.Agent{}, err
	}
	fresh := db.Agent{OrgID: orgID, Owner: by.ID}
	first, err := by.Ownership.on(ctx, tx.Queries, fresh, by)
	if err != nil {
		return fresh, err
	}
	owner := first.params(fresh)
	if _, err := tx.CreateAgent(ctx, db.CreateAgentParams{
		ID: ident.New("agent"), OrgID: orgID, Name: name, Owner: owner.Owner, OwnerTeam: owner.OwnerTeam, Visibility: owner.Visibility,
	}); err != nil {
		return fresh, fmt.Errorf("store agent %s: %w", name, err)
	}
	a, err := tx.LockAgentByName(ctx, db.LockAgentByNameParams{OrgID: orgID, Name: name})
	if err != nil {
		return a, fmt.Errorf("lock agent %s: %w", name, err)
	}
	if a.CurrentVersion == 0 {
		// The insert may have waited for a rename, and the name lead to that agent now.
		return a, neverHad(ctx, tx, orgID, name, by)
	}
	seen, err := visibility.Sees(ctx, tx.Queries, by.viewer(orgID), a.ID)
	switch {
	case err != nil:
		return a, err
	case !seen:
		return a, taken(name)
	case a.DeletedAt != nil:
		return a, deleted(a)
	}
	return a, mayManage(ctx, tx.Queries, a, by)
}

// neverHad refuses a name that an agent had before.
func neverHad(ctx context.Context, tx *event.Tx, orgID, name string, by Applier) error {
	was, err := tx.FormerName(ctx, db.FormerNameParams{OrgID: orgID, Name: name})
	switch {
	case store.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for former name %s: %w", name, err)
	}
	return renamed(ctx, tx.Queries, was.Agent, name, by)
}

// taken is why somebody may not use a name; of an agent that they do not see, it says no
// more.
func taken(name string) error {
	return fault.New(fault.Exists, "name is %q, which is taken", name).WithFix("give the agent another name").WithObject(name)
}

// renamed is why somebody may not use a name that an agent had before.
func renamed(ctx context.Context, q *db.Queries, a db.Agent, name string, by Applier) error {
	seen, err := visibility.Sees(ctx, q, by.viewer(a.OrgID), a.ID)
	if err != nil {
		return err
	}
	if !seen {
		return taken(name)
	}
	return fault.New(fault.Exists, "name is %q, which agent %s had before, and which leads to it", name, a.Name).WithObject(a.ID).
		WithFix("write name: %s in the file, give the agent another name, or free this one: deckhand agent rename %s %s --forget", a.Name, a.Name, a.Name)
}

// ReadsWorkspace refuses users who may not look into the workspace of a task that they see.
// The workspace that all tasks of an agent have is read by those whose task it is and by
// users whom OwnsWorkspace lets.
func (s *Service) ReadsWorkspace(ctx context.Context, v visibility.Viewer, t db.Task) error {
	if t.WorkspaceScope != string(persona.ScopeAgent) {
		return nil
	}
	yes, err := visibility.OwnsTask(ctx, s.store.Queries, v, t.ID)
	if err != nil || yes {
		return err
	}
	row, err := s.Get(ctx, v.OrgID, t.AgentID)
	if err != nil {
		return err
	}
	return s.OwnsWorkspace(ctx, v, row)
}

// ChangesTask refuses users who may not change a task that they see, nor its workspace: its
// submitter, the person whom it is assigned to, the owners of its agent and administrators
// may.
func (s *Service) ChangesTask(ctx context.Context, v visibility.Viewer, t db.Task) error {
	yes, err := visibility.OwnsTask(ctx, s.store.Queries, v, t.ID)
	if err != nil || yes {
		return err
	}
	return fault.New(fault.Denied, "task %s is %s's", t.ID, t.CreatedBy).WithCode(fault.PermissionDenied).WithObject(t.ID).
		WithFix("ask them or an administrator")
}

// OwnsWorkspace refuses users who may not see the workspace of an agent that they see: it
// holds what all its tasks have left. Its owners and administrators may.
func (s *Service) OwnsWorkspace(ctx context.Context, v visibility.Viewer, row db.GetAgentRow) error {
	yes, err := visibility.Owns(ctx, s.store.Queries, v, row.Agent.ID)
	if err != nil || yes {
		return err
	}
	whose, err := ownerName(ctx, s.store.Queries, row.Agent)
	if err != nil {
		return err
	}
	return fault.New(fault.Denied, "the workspace of agent %s is %s's, and holds what all its tasks have left", row.Agent.Name, whose).
		WithCode(fault.PermissionDenied).WithObject(row.Agent.ID).WithFix("name a task of yours, or ask them or an administrator")
}
