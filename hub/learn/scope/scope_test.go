package scope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Who reads and who writes in every kind of scope. Ann is in the team and owns the agents, bob
// is in the team, eve is neither, root administers the organisation, and mallory administers
// another one.
func TestWhoReadsAndWritesInAScope(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	ctx, q := t.Context(), f.Store.Queries
	for _, name := range []string{"ann", "bob", "eve"} {
		f.User(name, "advanced")
	}
	f.User("root", "admin")
	_, err := q.CreateOrganisation(ctx, db.CreateOrganisationParams{ID: "org_other", Name: "other"})
	require.NoError(t, err)
	for _, name := range []string{"mallory", "ann"} { // the name of a user of the other organisation, too
		_, err = q.CreateUser(ctx, db.CreateUserParams{ID: "user_other_" + name, OrgID: "org_other", Name: name, Role: "admin"})
		require.NoError(t, err)
	}
	f.Exec("INSERT INTO teams (id, org_id, name, role) VALUES ('team_a', $1, 'payments', 'viewer')", tasktest.Org)
	for _, name := range []string{"ann", "bob"} {
		f.Exec("INSERT INTO team_members (org_id, team_id, user_id) VALUES ($1, 'team_a', $2)", tasktest.Org, "user_"+name)
	}
	agents := map[string]string{}
	for _, level := range []string{"private", "team", "organisation"} {
		agents[level] = f.Agent(level, persona.ScopeAgent)
		f.Exec("UPDATE agents SET owner = 'ann', visibility = $2 WHERE id = $1", agents[level], level)
	}
	jail := func(agentID string) string { return "jail_" + agentID[len("agent_"):] }
	once := f.Agent("once", persona.ScopeTask)
	f.Exec("UPDATE agents SET owner = 'ann', visibility = 'organisation' WHERE id = $1", once)
	bobs := f.Submit(once, "bob", nil)

	viewers := []struct {
		name string
		visibility.Viewer
	}{
		{"ann", visibility.As(tasktest.Org, "ann", "advanced")}, {"bob", visibility.As(tasktest.Org, "bob", "advanced")},
		{"eve", visibility.As(tasktest.Org, "eve", "advanced")}, {"root", visibility.As(tasktest.Org, "root", "admin")},
		{"mallory", visibility.As("org_other", "mallory", "admin")}, {"ann of the other", visibility.As("org_other", "ann", "admin")},
		{"nobody", visibility.Viewer{OrgID: tasktest.Org, All: true}},
	}
	for _, c := range []struct {
		what          string
		scope         scope.Scope
		reads, writes []string
	}{
		{"organisation", scope.Scope{Kind: scope.Organisation, ID: tasktest.Org}, []string{"ann", "bob", "eve", "root"}, []string{"root"}},
		{"team", scope.Scope{Kind: scope.Team, ID: "team_a"}, []string{"ann", "bob", "root"}, []string{"ann", "bob", "root"}},
		{"user", scope.Scope{Kind: scope.User, ID: "user_ann"}, []string{"ann"}, []string{"ann"}},
		{"private agent", scope.Scope{Kind: scope.Agent, ID: agents["private"]}, []string{"ann", "root"}, []string{"ann", "root"}},
		{"agent of a team", scope.Scope{Kind: scope.Agent, ID: agents["team"]}, []string{"ann", "bob", "root"}, []string{"ann", "root"}},
		{"agent for all", scope.Scope{Kind: scope.Agent, ID: agents["organisation"]}, []string{"ann", "bob", "eve", "root"}, []string{"ann", "root"}},
		{"workspace of an agent", scope.Scope{Kind: scope.Workspace, ID: jail(agents["team"])}, []string{"ann", "bob", "root"}, []string{"ann", "root"}},
		{"workspace of a task", scope.Scope{Kind: scope.Workspace, ID: bobs.JailID}, []string{"ann", "bob", "root"}, []string{"ann", "bob", "root"}},
		{"unknown workspace", scope.Scope{Kind: scope.Workspace, ID: "jail_none"}, nil, nil},
		{"no kind", scope.Scope{ID: tasktest.Org}, nil, nil},
	} {
		var reads, writes []string
		for _, v := range viewers {
			seen, err := scope.Seen(ctx, q, v.Viewer, c.scope)
			require.NoError(t, err)
			writable, err := scope.Writable(ctx, q, v.Viewer, c.scope)
			require.NoError(t, err)
			switch err := scope.Check(ctx, q, v.Viewer, c.scope, true); {
			case !seen:
				require.True(t, fault.Is(err, fault.NotFound), "%s, %s: %v", c.what, v.name, err)
			case !writable:
				require.True(t, fault.Is(err, fault.Denied), "%s, %s: %v", c.what, v.name, err)
			default:
				require.NoError(t, err)
			}
			if seen {
				reads = append(reads, v.name)
			}
			if writable {
				writes = append(writes, v.name)
			}
		}
		require.Equal(t, c.reads, reads, "who reads: %s", c.what)
		require.Equal(t, c.writes, writes, "who writes: %s", c.what)
	}

	// A run has what its user sees, the widest first.
	of, err := scope.OfRun(ctx, q, scope.Run{Viewer: viewers[1].Viewer, AgentID: agents["team"], WorkspaceID: jail(agents["team"])})
	require.NoError(t, err)
	require.Equal(t, []scope.Scope{
		{Kind: scope.Organisation, ID: tasktest.Org}, {Kind: scope.Team, ID: "team_a"}, {Kind: scope.User, ID: "user_bob"},
		{Kind: scope.Agent, ID: agents["team"]}, {Kind: scope.Workspace, ID: jail(agents["team"])},
	}, of)
	of, err = scope.OfRun(ctx, q, scope.Run{Viewer: viewers[2].Viewer, AgentID: agents["private"], WorkspaceID: jail(agents["private"])})
	require.NoError(t, err)
	require.Equal(t, []scope.Scope{{Kind: scope.Organisation, ID: tasktest.Org}, {Kind: scope.User, ID: "user_eve"}}, of)

	// A request may leave ids out, or give names.
	for _, c := range []struct{ in, out scope.Scope }{
		{scope.Scope{Kind: scope.Organisation}, scope.Scope{Kind: scope.Organisation, ID: tasktest.Org}},
		{scope.Scope{Kind: scope.User}, scope.Scope{Kind: scope.User, ID: "user_ann"}},
		{scope.Scope{Kind: scope.Team, ID: "payments"}, scope.Scope{Kind: scope.Team, ID: "team_a"}},
		{scope.Scope{Kind: scope.Agent, ID: "private"}, scope.Scope{Kind: scope.Agent, ID: agents["private"]}},
	} {
		got, err := scope.Resolve(ctx, q, viewers[0].Viewer, c.in)
		require.NoError(t, err)
		require.Equal(t, c.out, got)
		back, err := scope.FromProto("scope", got.Proto())
		require.NoError(t, err)
		require.Equal(t, got, back)
	}
	_, err = scope.Resolve(ctx, q, viewers[2].Viewer, scope.Scope{Kind: scope.Agent, ID: "private"})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = scope.FromProto("scope", &deckhandv1.Scope{})
	require.ErrorContains(t, err, "scope has no kind")
}
