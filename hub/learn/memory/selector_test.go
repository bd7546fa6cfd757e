package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// A selector is trusted more after each hit and less after each miss until it is not used. It
// belongs to the runs of an agent for one user, ends if it is not used, and no run is told it.
// What a person wrote is used and not changed.
func TestSelectorsAreWeighedByTheirUse(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	f.User("ann", "basic")
	f.User("bob", "basic")
	f.User("root", "admin")
	agentID := f.Agent("clerk", persona.ScopeTask)
	m := memory.New(memory.Config{Store: f.Store, Recorder: f.Recorder, Redact: &redact.Redactor{}})
	run := func(name string) scope.Run {
		return scope.Run{Viewer: visibility.As(tasktest.Org, name, "basic"), AgentID: agentID}
	}
	steps := 0
	use := func(key string, value any, hit, missed bool) {
		t.Helper()
		steps++
		require.NoError(t, m.UseSelector(t.Context(), run("ann").Viewer, memory.Draft{
			Scope: scope.Scope{Kind: scope.Agent, ID: agentID}, Key: key, Value: value,
			Source: memory.Source{Kind: memory.ByAgent, User: "ann", AgentID: agentID, StepID: fmt.Sprint("step_", steps)},
		}, hit, missed))
	}
	of := func(name string) []db.Memory {
		t.Helper()
		rows, err := m.Selectors(t.Context(), run(name), 1000)
		require.NoError(t, err)
		return rows
	}
	const key = "shop.example.com/orders the export link"
	use(key, nil, false, true)
	require.Empty(t, of("ann"), "a miss of nothing is nothing")
	use(key, map[string]any{"role": "link", "name": "Export"}, false, false)
	rows := of("ann")
	require.Len(t, rows, 1)
	require.InDelta(t, 0.6, rows[0].Confidence, 0.001)
	require.True(t, rows[0].Untrusted)
	require.WithinDuration(t, time.Now().Add(90*24*time.Hour), *rows[0].ExpiresAt, time.Hour)
	require.Empty(t, of("bob"), "it is of another user's runs")
	hits, err := m.Recall(t.Context(), f.Store.Queries, run("ann"), memory.Question{Text: "the export link", Limit: 10})
	require.NoError(t, err)
	require.Empty(t, hits)

	use(key, map[string]any{"role": "link", "name": "Export"}, true, false)
	require.InDelta(t, 0.72, of("ann")[0].Confidence, 0.001)
	require.EqualValues(t, 1, of("ann")[0].Version, "a use is no change")
	use(key, map[string]any{"role": "button", "name": "Export all"}, false, true)
	rows = of("ann")
	require.InDelta(t, 0.36, rows[0].Confidence, 0.001)
	require.JSONEq(t, `{"role": "button", "name": "Export all"}`, string(rows[0].Value))
	use(key, nil, false, true)
	require.Empty(t, of("ann"), "it missed too often")
	use(key, map[string]any{"role": "button", "name": "Export"}, false, false)
	require.InDelta(t, 0.3, of("ann")[0].Confidence, 0.001, "it is tried again")

	// What a person wrote.
	_, err = m.Set(t.Context(), visibility.Viewer{OrgID: tasktest.Org, Name: "root", All: true}, "admin", memory.Draft{
		Scope: scope.Scope{Kind: scope.Agent, ID: agentID}, Type: memory.Selector, Key: "a.example/ pay", Value: map[string]any{"role": "button", "name": "Pay"}, Confidence: 1,
	}, tasktest.By("root"))
	require.NoError(t, err)
	require.Len(t, of("bob"), 1)
	use("a.example/ pay", map[string]any{"role": "link", "name": "Evil"}, false, true)
	rows = of("bob")
	require.JSONEq(t, `{"role": "button", "name": "Pay"}`, string(rows[0].Value))
	require.InDelta(t, 0.5, rows[0].Confidence, 0.001)
	require.Nil(t, rows[0].ExpiresAt)

	// Those that were not used for longest make room.
	f.Exec(`INSERT INTO memories (id, org_id, scope_kind, scope_id, only_for, type, key, value, body, source, untrusted, confidence, updated_at)
		SELECT 'memory_s' || n, $1, 'agent', $2, 'user_ann', 'selector', 'b.example/' || n || ' x', '{"role":"link"}', 'x', 'agent', true, 0.6, now() - n * interval '1 hour'
		FROM generate_series(1, 520) AS n`, tasktest.Org, agentID)
	use("c.example/ new", map[string]any{"role": "link", "name": "New"}, false, false)
	rows = of("ann")
	require.Len(t, rows, 501, "500 of the user's runs, and the person's")
	keys := map[string]bool{}
	for _, row := range rows {
		keys[row.Key] = true
	}
	require.True(t, keys["c.example/ new"] && keys["a.example/ pay"] && keys["b.example/1 x"])
	require.False(t, keys["b.example/520 x"])
}
