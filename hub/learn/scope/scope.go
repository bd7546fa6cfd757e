// Package scope says whose something learned is (a memory, a collection of documents, a
// pattern), and decides who reads and who writes it. Scope is an organisation, a team, a user,
// an agent or a workspace. Seen and Writable check one scope, Check does so for a call, and
// queries filter their rows with the same rule, which is written once, in SQL: scope_seen and
// scope_writable.
//
// Everybody reads the organisation's, and administrators write it. A team's is its members'. A
// user's is that user's alone: not even administrators read it. What an agent or a workspace
// has is read by everybody who sees the agent (or the workspace's task), and written by its owners.
// A scope that somebody does not see does not exist for them: calls that name it return
// not_found.
package scope

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Kind is what a scope belongs to.
type Kind string

// The kinds, as the database names them.
const (
	Organisation Kind = "organisation"
	Team         Kind = "team"
	User         Kind = "user"
	Agent        Kind = "agent"
	Workspace    Kind = "workspace"
)

var kinds = []struct {
	kind  Kind
	proto deckhandv1.ScopeKind
}{
	{Organisation, deckhandv1.ScopeKind_SCOPE_KIND_ORGANISATION},
	{Team, deckhandv1.ScopeKind_SCOPE_KIND_TEAM},
	{User, deckhandv1.ScopeKind_SCOPE_KIND_USER},
	{Agent, deckhandv1.ScopeKind_SCOPE_KIND_AGENT},
	{Workspace, deckhandv1.ScopeKind_SCOPE_KIND_WORKSPACE},
}

// Kinds returns the names of all kinds.
func Kinds() []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = string(k.kind)
	}
	return out
}

// Scope is one organisation, team, user, agent or workspace.
type Scope struct {
	Kind Kind
	// ID is that of the organisation, team, user or agent; a workspace's is its jail's.
	ID string
}

// String returns a scope for errors and the audit log.
func (s Scope) String() string { return string(s.Kind) + " " + s.ID }

// FromProto returns the scope that a message names; its id may still be a name or empty, see
// Resolve. The error names field.
func FromProto(field string, s *deckhandv1.Scope) (Scope, error) {
	for _, k := range kinds {
		if k.proto == s.GetKind() {
			return Scope{Kind: k.kind, ID: s.GetId()}, nil
		}
	}
	return Scope{}, fault.New(fault.Invalid, "%s has no kind", field).WithFix("use %s", strings.Join(Kinds(), ", "))
}

// Proto returns a scope as a message.
func (s Scope) Proto() *deckhandv1.Scope {
	i := slices.IndexFunc(kinds, func(k struct {
		kind  Kind
		proto deckhandv1.ScopeKind
	}) bool {
		return k.kind == s.Kind
	})
	if i < 0 {
		return &deckhandv1.Scope{Id: s.ID}
	}
	return &deckhandv1.Scope{Kind: kinds[i].proto, Id: s.ID}
}

// Seen reports whether v reads what is in a scope.
func Seen(ctx context.Context, q *db.Queries, v visibility.Viewer, s Scope) (bool, error) {
	row, err := access(ctx, q, v, s)
	return row.Seen, err
}

// Writable reports whether v writes in a scope.
func Writable(ctx context.Context, q *db.Queries, v visibility.Viewer, s Scope) (bool, error) {
	row, err := access(ctx, q, v, s)
	return row.Writable, err
}

func access(ctx context.Context, q *db.Queries, v visibility.Viewer, s Scope) (db.ScopeAccessRow, error) {
	row, err := q.ScopeAccess(ctx, db.ScopeAccessParams{
		OrgID: v.OrgID, Kind: string(s.Kind), ID: s.ID, Viewer: v.Name, Administrator: v.All,
	})
	if err != nil {
		return row, fmt.Errorf("look what %q may do in the scope %s: %w", v.Name, s, err)
	}
	return row, nil
}

// Check returns not_found for a scope that v does not see, and, with write, denied for one
// that v reads only.
func Check(ctx context.Context, q *db.Queries, v visibility.Viewer, s Scope, write bool) error {
	row, err := access(ctx, q, v, s)
	switch {
	case err != nil:
		return err
	case !row.Seen:
		return missing(s)
	case write && !row.Writable:
		who := "its owners and administrators do"
		if s.Kind == Organisation {
			who = "administrators do"
		}
		return fault.New(fault.Denied, "you read the scope %s and do not write in it: %s", s, who).WithCode(fault.PermissionDenied).
			WithFix("use your own scope, or ask one of them").WithObject(s.ID)
	}
	return nil
}

func missing(s Scope) error {
	fix := "list what there is with: deckhand " + string(s.Kind) + " list"
	if s.Kind == Workspace {
		fix = "use the id of an agent's or a task's jail: deckhand agent show"
	}
	return fault.New(fault.NotFound, "there is no %s %q", s.Kind, s.ID).WithFix("%s", fix).WithObject(s.ID)
}

// Resolve returns a scope with its whole id, which a caller may leave out (the caller's
// organisation, the caller) or give as a name or the beginning of an id. It does not check
// that v sees it; see Check.
func Resolve(ctx context.Context, q *db.Queries, v visibility.Viewer, s Scope) (Scope, error) {
	var err error
	switch {
	case s.Kind == Organisation && s.ID == "":
		s.ID = v.OrgID
	case s.Kind == User:
		ref := s.ID
		if ref == "" {
			ref = v.Name
		}
		rows, failed := q.FindUsers(ctx, db.FindUsersParams{OrgID: v.OrgID, Ref: ref, Prefix: store.Prefix("user", ref)})
		s.ID, err = store.One("user", ref, rows, failed)
	case s.ID == "":
		return s, fault.New(fault.Invalid, "the scope names no %s", s.Kind).WithFix("give its name or id")
	case s.Kind == Team:
		rows, failed := q.FindTeams(ctx, db.FindTeamsParams{OrgID: v.OrgID, Ref: s.ID, Prefix: store.Prefix("team", s.ID)})
		s.ID, err = store.One("team", s.ID, rows, failed)
	case s.Kind == Agent:
		rows, failed := q.FindAgents(ctx, db.FindAgentsParams{
			OrgID: v.OrgID, Ref: s.ID, Prefix: store.Prefix("agent", s.ID), SeesAll: v.All, Viewer: v.Name,
		})
		s.ID, err = store.One("agent", s.ID, rows, failed)
	}
	return s, err
}

// Run is a run that reads what was learned.
type Run struct {
	// Viewer is the user that the task runs for.
	Viewer visibility.Viewer
	// AgentID and WorkspaceID (the jail's id) may be empty.
	AgentID, WorkspaceID string
}

// OfRun returns the scopes whose content concerns a run, the widest first: the organisation's,
// the teams' and the user's own, and the agent's and the workspace's if the user sees them.
func OfRun(ctx context.Context, q *db.Queries, r Run) ([]Scope, error) {
	rows, err := q.ScopesOfRun(ctx, db.ScopesOfRunParams{
		OrgID: r.Viewer.OrgID, Viewer: r.Viewer.Name, AgentID: r.AgentID, WorkspaceID: r.WorkspaceID, Administrator: r.Viewer.All,
	})
	if err != nil {
		return nil, fmt.Errorf("list the scopes of a run for %q: %w", r.Viewer.Name, err)
	}
	out := make([]Scope, len(rows))
	for i, row := range rows {
		out[i] = Scope{Kind: Kind(row.Kind), ID: row.ID}
	}
	return out, nil
}
