package credential_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Of tasks that share a jail, the strictest decides about each request, in whatever order they
// came.
func TestTheStrictestTaskOfAJailDecides(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) { c.Settings.InstallationId = 77 })
	r.create(bearer("api"))
	r.exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, node_id, created_by, created_by_role, correlation_id, lineage_id)
		SELECT 'task_0', org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, node_id, created_by, created_by_role, correlation_id, 'task_0' FROM tasks WHERE id = 'task_1'`)
	personas := map[string]*persona.Persona{}
	for _, id := range []string{"task_0", "task_1"} {
		personas[id] = &persona.Persona{Name: "coder", Mode: persona.Autonomous, Credentials: []persona.Credential{{Name: "github"}, {Name: "api"}}}
	}
	credentials := credential.New(credential.Config{
		Store: r.store, Recorder: r.recorder, Vault: r.vault, Redact: r.redact, Guard: loopback,
		Persona: func(_ context.Context, t db.Task) (*persona.Persona, error) { return personas[t.ID], nil },
	})
	post := func() error {
		_, err := credentials.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodPost, "https://api.example.com/", "x"))
		return err
	}
	require.NoError(t, post())
	for id, p := range personas {
		p.Mode = persona.Review
		refused(t, post(), fault.Denied, "the run is reviewed")
		p.Mode = persona.Autonomous
		listed := p.Credentials
		p.Credentials = nil
		refused(t, post(), fault.Denied, "shared by 2 tasks, and the persona of one of them, "+id)
		p.Credentials = listed
	}
	personas["task_0"].Credentials[0].Repositories = []string{"acme/*"}
	personas["task_1"].Credentials[0].Repositories = []string{"acme/web"}
	personas["task_0"].Credentials[0].Permissions = map[string]string{"contents": "read", "pull_requests": "write"}
	personas["task_1"].Credentials[0].Permissions = map[string]string{"contents": "write"}
	_, err := credentials.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"repositories": []any{"web"}, "permissions": map[string]any{"contents": "read"}}, g.bodies[len(g.bodies)-1])
	personas["task_0"].Credentials[0].Repositories = []string{"acme/docs"}
	_, err = credentials.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Denied, "have nothing in common")

	// What a node has a token for changes with what is wanted.
	versions := map[string]bool{}
	for _, repositories := range [][]string{{"acme/*"}, {"acme/web"}, {"acme/web", "acme/docs"}} {
		got, err := credentials.Bindings(t.Context(), org, "coder", []persona.Credential{{Name: "github", Repositories: repositories}})
		require.NoError(t, err)
		versions[got[0].GetVersion()] = true
	}
	assert.Len(t, versions, 3)
}

// However many tasks share a jail, each counts: also one that is paused, whose jobs go on. One
// that never ran, or has ended, does not.
func TestEveryTaskOfAJailCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	r.exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, node_id, created_by, created_by_role, correlation_id, lineage_id, started_at)
		SELECT 'task_m' || lpad(n::text, 2, '0'), org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, node_id, created_by, created_by_role, correlation_id, 'task_m' || lpad(n::text, 2, '0'), clock_timestamp()
		FROM tasks, generate_series(1, 40) n WHERE id = 'task_1'`)
	strange := ""
	credentials := credential.New(credential.Config{
		Store: r.store, Recorder: r.recorder, Vault: r.vault, Redact: r.redact, Guard: loopback,
		Persona: func(_ context.Context, t db.Task) (*persona.Persona, error) {
			p := &persona.Persona{Name: "coder", Mode: persona.Autonomous}
			if t.ID != strange {
				p.Credentials = []persona.Credential{{Name: "api"}}
			}
			return p, nil
		},
	})
	post := func() error {
		_, err := credentials.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodPost, "https://api.example.com/", "x"))
		return err
	}
	require.NoError(t, post())
	for _, strange = range []string{"task_1", "task_m01", "task_m21", "task_m40"} {
		refused(t, post(), fault.Denied, "shared by 41 tasks, and the persona of one of them, "+strange)
	}
	r.exec(`UPDATE tasks SET state = 'paused' WHERE id = 'task_m40'`)
	refused(t, post(), fault.Denied, "the persona of one of them, task_m40")
	r.exec(`UPDATE tasks SET started_at = NULL WHERE id = 'task_m40'`)
	require.NoError(t, post(), "it never ran")
}

func TestWhatAllTasksOfAJailMayPush(t *testing.T) {
	t.Parallel()
	none := []string{"refs/nothing-that-all-tasks-of-this-jail-may-push delete"}
	for name, c := range map[string]struct{ a, b, want []string }{
		"the same":        {[]string{"refs/heads/* force"}, []string{"refs/heads/* force"}, []string{"refs/heads/* force"}},
		"both none":       {nil, nil, nil},
		"the default":     {nil, []string{"refs/heads/* create,update,delete"}, []string{"refs/heads/deckhand/* create,update"}},
		"force":           {[]string{"refs/heads/* force"}, []string{"refs/heads/main update"}, []string{"refs/heads/main update"}},
		"other branches":  {[]string{"refs/heads/a/* create"}, []string{"refs/heads/b/* create"}, none},
		"other rights":    {[]string{"refs/heads/a create"}, []string{"refs/heads/a delete"}, none},
		"several of each": {[]string{"refs/heads/* create", "refs/heads/a update"}, []string{"refs/heads/a create", "refs/heads/* update"}, []string{"refs/heads/a create,update"}},
	} {
		for _, way := range [][2][]string{{c.a, c.b}, {c.b, c.a}} {
			got := credential.Strictest([]persona.Credential{{Name: "github", Pushes: way[0]}}, []persona.Credential{{Name: "github", Pushes: way[1]}})
			require.Len(t, got, 1, name)
			assert.Equal(t, c.want, got[0].Pushes, name)
		}
	}
	assert.Empty(t, credential.Strictest([]persona.Credential{{Name: "github"}}, nil), "what another task does not list is left out")
}
