// Package team manages groups of users. Teams is its service. A member of a team has at
// least its role: a user's effective role is the highest of their own and those of their
// teams (effective_role in the database).
package team

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Teams keeps teams.
type Teams struct {
	store *store.Store
	users *user.Users
}

// New creates Teams.
func New(s *store.Store, users *user.Users) *Teams { return &Teams{s, users} }

// Find returns the id of a team by an id, the beginning of one, or a name.
func (t *Teams) Find(ctx context.Context, orgID, ref string) (string, error) {
	rows, err := t.store.FindTeams(ctx, db.FindTeamsParams{OrgID: orgID, Ref: ref, Prefix: store.Prefix("team", ref)})
	return store.One("team", ref, rows, err)
}

// Get returns a team with the names of its members.
func (t *Teams) Get(ctx context.Context, orgID, id string) (db.GetTeamRow, error) {
	row, err := t.store.GetTeam(ctx, db.GetTeamParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, missing(id)
	}
	return row, err
}

func missing(id string) error {
	return fault.New(fault.NotFound, "there is no team %q", id).WithFix("list what there is with: deckhand team list").WithObject(id)
}

// List returns a page of all by name, and the next page's token.
func (t *Teams) List(ctx context.Context, orgID, page string, size int32) ([]db.ListTeamsRow, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.store.ListTeams(ctx, db.ListTeamsParams{OrgID: orgID, AfterName: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list teams: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.ListTeamsRow) string { return store.NameToken(last.Team.Name, "") })
	return rows, next, nil
}

// Create creates an empty team.
func (t *Teams) Create(ctx context.Context, orgID, name, role string, by event.Actor) (string, error) {
	id := ident.New("team")
	return id, t.change(ctx, audit.Entry{
		OrgID: orgID, By: by, Action: "team.created", ObjectID: id, After: map[string]any{"name": name, "role": role},
	}, func(tx *event.Tx) (bool, error) {
		_, err := tx.CreateTeam(ctx, db.CreateTeamParams{ID: id, OrgID: orgID, Name: name, Role: role})
		if store.IsNotFound(err) {
			err = fault.New(fault.Exists, "there is a team %q already", name).WithFix("choose another name")
		}
		return true, err
	})
}

// SetRole changes what its members may.
func (t *Teams) SetRole(ctx context.Context, orgID, id, role string, by event.Actor) error {
	is, err := t.Get(ctx, orgID, id)
	if err != nil {
		return err
	}
	return t.change(ctx, audit.Entry{
		OrgID: orgID, By: by, Action: "team.changed", ObjectID: id,
		Before: map[string]any{"role": is.Team.Role}, After: map[string]any{"role": role},
	}, func(tx *event.Tx) (bool, error) {
		n, err := tx.UpdateTeam(ctx, db.UpdateTeamParams{OrgID: orgID, ID: id, Role: role})
		return n > 0, err
	})
}

// Delete ends a team.
func (t *Teams) Delete(ctx context.Context, orgID, id string, by event.Actor) error {
	is, err := t.Get(ctx, orgID, id)
	if err != nil {
		return err
	}
	members := make([]any, len(is.Members))
	for i, m := range is.Members {
		members[i] = m
	}
	return t.change(ctx, audit.Entry{
		OrgID: orgID, By: by, Action: "team.deleted", ObjectID: id,
		Before: map[string]any{"name": is.Team.Name, "role": is.Team.Role, "members": members},
	}, func(tx *event.Tx) (bool, error) {
		owns, err := tx.CountAgentsOfTeam(ctx, db.CountAgentsOfTeamParams{OrgID: orgID, TeamID: id})
		if err != nil {
			return false, fmt.Errorf("count the agents of team %s: %w", id, err)
		}
		if owns > 0 {
			return false, fault.New(fault.Precondition, "team %s owns %d agents", is.Team.Name, owns).WithObject(id).
				WithFix("give them to others first: deckhand agent transfer NAME --owner USER")
		}
		// Nobody else sees what the team has written down.
		gone, err := tx.DeleteKnowledgeOfTeam(ctx, db.DeleteKnowledgeOfTeamParams{OrgID: orgID, TeamID: id})
		if err != nil {
			return false, fmt.Errorf("delete the collections of team %s: %w", id, err)
		}
		for _, c := range gone {
			if err := audit.Append(tx, audit.Entry{
				OrgID: orgID, By: by, Action: "collection.deleted", ObjectKind: "collection", ObjectID: c.ID, Before: map[string]any{"name": c.Name, "scope": "team " + id},
			}); err != nil {
				return false, err
			}
		}
		n, err := tx.DeleteTeam(ctx, db.DeleteTeamParams{OrgID: orgID, ID: id})
		return n > 0, err
	})
}

// Add puts a user in.
func (t *Teams) Add(ctx context.Context, orgID, id, userID string, by event.Actor) error {
	return t.change(ctx, audit.Entry{
		OrgID: orgID, By: by, Action: "team.member_added", ObjectID: id, After: map[string]any{"user_id": userID},
	}, func(tx *event.Tx) (bool, error) {
		n, err := tx.AddTeamMember(ctx, db.AddTeamMemberParams{OrgID: orgID, TeamID: id, UserID: userID})
		return n > 0, err
	})
}

// Remove takes a user out.
func (t *Teams) Remove(ctx context.Context, orgID, id, userID string, by event.Actor) error {
	return t.change(ctx, audit.Entry{
		OrgID: orgID, By: by, Action: "team.member_removed", ObjectID: id, Before: map[string]any{"user_id": userID},
	}, func(tx *event.Tx) (bool, error) {
		n, err := tx.RemoveTeamMember(ctx, db.RemoveTeamMemberParams{OrgID: orgID, TeamID: id, UserID: userID})
		return n > 0, err
	})
}

// change changes one, with an audit entry if it changed anything.
func (t *Teams) change(ctx context.Context, e audit.Entry, fn func(tx *event.Tx) (bool, error)) error {
	e.ObjectKind = "team"
	return t.users.Guarded(ctx, e.OrgID, func(tx *event.Tx) error {
		changed, err := fn(tx)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Action, err)
		}
		if !changed {
			return nil
		}
		return audit.Append(tx, e)
	})
}
