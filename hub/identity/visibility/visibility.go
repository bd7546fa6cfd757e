// Package visibility decides who sees an agent and what hangs on it: its tasks, logs,
// events, files, inbox items, triggers and figures. Viewer is who asks, Sees and Owns
// check one agent, OwnsTask one task, and queries filter their rows with the same rule, which is written
// once, in SQL: agent_seen, agent_owned, task_seen, task_owned, inbox_seen and inbox_owned.
//
// An agent has one owner, a user or a team, and a Level that says who else sees it.
// Administrators see everything of their organisation. What somebody does not see does
// not exist for them: calls that name it return not_found, lists leave it out, and
// streams do not deliver it. The submitter of a task goes on seeing it when its
// agent is hidden from them later. Where an organisation shares its tasks, more people see
// them, and read them: what changes a task or its workspace is for those whose it is.
package visibility

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Viewer is the user on whose behalf something is read. The zero Viewer sees nothing.
type Viewer struct {
	OrgID string
	// Name is the user's; without one nothing is seen unless All is set.
	Name string
	// All reports that the viewer sees all of the organisation, as administrators do.
	All bool
}

// Of returns the viewer that a caller is.
func Of(id auth.Identity) Viewer { return As(id.OrgID, id.UserName, id.Role) }

// As returns the viewer that a user with a role is.
func As(orgID, user, role string) Viewer {
	return Viewer{OrgID: orgID, Name: user, All: role == auth.Admin}
}

// Hub returns the viewer for the hub's own work, which is on behalf of nobody.
func Hub(orgID string) Viewer { return Viewer{OrgID: orgID, All: true} }

// Level says who sees an agent besides its owners and administrators.
type Level string

// The levels, the narrowest first.
const (
	// Private is nobody else.
	Private Level = "private"
	// Team is everybody who is in a team with the user who owns the agent; of an agent that a
	// team owns, its members, who are its owners.
	Team Level = "team"
	// Organisation is everybody.
	Organisation Level = "organisation"
)

// Default is the level of an agent that is applied without one.
const Default = Organisation

var levels = []string{string(Private), string(Team), string(Organisation)}

// Levels returns the names of the levels, the narrowest first.
func Levels() []string { return slices.Clone(levels) }

// Parse returns a level by its name; an empty text is no level. The error names field.
func Parse(field, text string) (Level, error) {
	if text != "" && !slices.Contains(levels, text) {
		return "", fault.New(fault.Invalid, "%s is %q", field, text).WithFix("use %s", strings.Join(levels, ", "))
	}
	return Level(text), nil
}

// Sees reports whether v sees an agent, by its id.
func Sees(ctx context.Context, q *db.Queries, v Viewer, agentID string) (bool, error) {
	seen, err := q.AgentSeen(ctx, db.AgentSeenParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, ID: agentID})
	return found(seen, err, v, agentID)
}

// Owns reports whether v owns an agent, by its id; administrators own all.
func Owns(ctx context.Context, q *db.Queries, v Viewer, agentID string) (bool, error) {
	owned, err := q.AgentOwned(ctx, db.AgentOwnedParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, ID: agentID})
	return found(owned, err, v, agentID)
}

// OwnsTask reports whether a task is v's, by its id: v submitted it, it is assigned to v, or
// v owns its agent. Others who see the task only read it. Administrators own all.
func OwnsTask(ctx context.Context, q *db.Queries, v Viewer, taskID string) (bool, error) {
	owned, err := q.TaskOwned(ctx, db.TaskOwnedParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, ID: taskID})
	if store.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether task %s is %q's: %w", taskID, v.Name, err)
	}
	return owned, nil
}

// Owned returns those of the agents with some ids that v owns; administrators own all.
func Owned(ctx context.Context, q *db.Queries, v Viewer, agentIDs []string) ([]string, error) {
	if v.All {
		return agentIDs, nil
	}
	owned, err := q.AgentsOwned(ctx, db.AgentsOwnedParams{OrgID: v.OrgID, Viewer: v.Name, Ids: agentIDs})
	if err != nil {
		return nil, fmt.Errorf("look which agents %q owns: %w", v.Name, err)
	}
	return owned, nil
}

func found(yes bool, err error, v Viewer, agentID string) (bool, error) {
	if store.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look what %q may see of agent %s: %w", v.Name, agentID, err)
	}
	return yes, nil
}

// Names returns those of agents' names that v sees, in the order given. Words that name no
// agent, such as *, are kept.
func Names(ctx context.Context, q *db.Queries, v Viewer, names []string) ([]string, error) {
	if v.All || len(names) == 0 {
		return names, nil
	}
	seen, err := q.AgentNamesSeen(ctx, db.AgentNamesSeenParams{OrgID: v.OrgID, Names: names, SeesAll: v.All, Viewer: v.Name})
	if err != nil {
		return nil, fmt.Errorf("look which agents %q sees: %w", v.Name, err)
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != "*" && !slices.Contains(seen, name) }), nil
}
