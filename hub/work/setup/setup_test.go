package setup_test

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
)

// The jail of a setup, which has the logs of its commands, is removed from the node a month
// after the setup has ended; until then it stays.
func TestJailsOfOldSetupsAreRemoved(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	f := tasktest.New(t)
	on, agent := f.Node("web-1"), f.Agent("builder", persona.ScopeTask)
	link := nodetest.NewLink(t, m)
	connected := false
	s := setup.New(setup.Config{Store: f.Store, Log: hclog.NewNullLogger(), Node: func(string) (machine.Link, error) {
		if !connected {
			return nil, fault.New(fault.Unavailable, "not connected")
		}
		return link, nil
	}})
	ended := func(ago string) (jailID string) {
		jailID = ident.New("setup")
		_, err := m.Ensure(t.Context(), jailtest.Spec(jailID))
		require.NoError(t, err)
		f.Exec(`INSERT INTO image_setups (id, org_id, node_id, agent_id, image, setup, jail_id, state, lines, started_by, ended_at, cleared_at)
			VALUES ($1, $2, $3, $4, 'registry.example.com/tools@sha256:1', $1, $5, 'ready', 1, 'ann', now() - $6::interval, now() - $6::interval)`,
			ident.New("iset"), tasktest.Org, on, agent, jailID, ago)
		return filepath.Join(cfg.DataDir, "jails", jailID)
	}
	old, recent := ended("31 days"), ended("29 days")
	require.NoError(t, s.Sweep(t.Context()))
	require.DirExists(t, old, "its node is not connected")
	connected = true
	require.NoError(t, s.Sweep(t.Context()))
	require.NoDirExists(t, old)
	require.DirExists(t, recent)
	var left int
	require.NoError(t, f.SQL.QueryRow(t.Context(), "SELECT count(*) FROM image_setups WHERE removed_at IS NULL").Scan(&left))
	require.Equal(t, 1, left)
}

// A setup's jail may be as large as an organisation's jails, also if a person starts it.
func TestASetupWithinTheOrganisationsLimits(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	on, agent := f.Node("web-1"), f.Agent("builder", persona.ScopeTask)
	s := setup.New(setup.Config{Store: f.Store, Log: hclog.NewNullLogger()})
	f.Exec("UPDATE organisations SET jail_memory_bytes = $2, jail_workspace_bytes = $3 WHERE id = $1", tasktest.Org, 1<<30, 2<<30)
	row, err := f.Store.NodeByID(t.Context(), on)
	require.NoError(t, err)
	want := setup.Want{
		OrgID: tasktest.Org, AgentID: agent, Node: row, Image: "registry.example.com/tools@sha256:1", By: node.User{ID: "ann", Name: "ann"},
		Jail: persona.Jail{MemoryBytes: 2 << 30, Setup: []string{"true"}}, WorkspaceBytes: 1 << 30,
	}
	err = s.Ensure(t.Context(), want, nil)
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.ErrorContains(t, err, "jail.memory would be 2 GiB, and this organisation's jails may have 1 GiB at most")
	want.Jail.MemoryBytes, want.WorkspaceBytes = 1<<30, 3<<30
	require.ErrorContains(t, s.Ensure(t.Context(), want, nil), "workspace.size would be 3 GiB")
	var begun int
	require.NoError(t, f.SQL.QueryRow(t.Context(), "SELECT count(*) FROM image_setups").Scan(&begun))
	require.Zero(t, begun)
}
