package memory_test

import (
	"encoding/json"
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

// A value that a person deleted is not learnt again, whatever a browser that still has it reports.
func TestADeletedSelectorStaysDeleted(t *testing.T) {
	t.Parallel()
	f := newSelectors(t)
	f.use("ann", map[string]any{"role": "button", "name": "Wrong"}, false, false)
	rows := f.of("ann")
	require.Len(t, rows, 1)
	_, err := f.m.Delete(t.Context(), visibility.As(tasktest.Org, "ann", "basic"), []string{rows[0].ID}, tasktest.By("ann"))
	require.NoError(t, err)
	require.Empty(t, f.of("ann"))
	f.use("ann", map[string]any{"role": "button", "name": "Wrong"}, true, false)
	f.use("ann", map[string]any{"name": "Wrong", "role": "button"}, false, false)
	f.use("ann", nil, false, true)
	require.Empty(t, f.of("ann"))
	f.use("ann", map[string]any{"role": "button", "name": "Right"}, false, true)
	rows = f.of("ann")
	require.Len(t, rows, 1)
	require.JSONEq(t, `{"role": "button", "name": "Right"}`, string(rows[0].Value))
}

// Of two selectors with a key, a run is given what a person wrote, and that one is weighed. Once it
// has missed too often, it is given its user's own.
func TestARunIsGivenOneSelectorForAKey(t *testing.T) {
	t.Parallel()
	f := newSelectors(t)
	f.use("ann", map[string]any{"role": "button", "name": "Learnt"}, false, false)
	_, err := f.m.Set(t.Context(), visibility.Viewer{OrgID: tasktest.Org, Name: "root", All: true}, "admin", memory.Draft{
		Scope: scope.Scope{Kind: scope.Agent, ID: f.agent}, Type: memory.Selector, Key: f.key, Value: map[string]any{"role": "button", "name": "Written"}, Confidence: 0.5,
	}, tasktest.By("root"))
	require.NoError(t, err)
	name := func() (name string, confidence float64) {
		t.Helper()
		rows := f.of("ann")
		require.Len(t, rows, 1)
		var value struct{ Name string }
		require.NoError(t, json.Unmarshal(rows[0].Value, &value))
		return value.Name, rows[0].Confidence
	}
	f.use("bob", map[string]any{"role": "button", "name": "Written"}, true, false) // the one for all is used last
	is, confidence := name()
	require.Equal(t, "Written", is)
	require.InDelta(t, 0.65, confidence, 0.001)
	f.use("ann", nil, false, true)
	is, confidence = name()
	require.Equal(t, "Written", is)
	require.InDelta(t, 0.325, confidence, 0.001)
	f.use("ann", nil, false, true)
	is, confidence = name()
	require.Equal(t, "Learnt", is, "the written one missed too often")
	require.InDelta(t, 0.6, confidence, 0.001)
	f.use("ann", map[string]any{"role": "button", "name": "Learnt"}, true, false)
	_, confidence = name()
	require.InDelta(t, 0.72, confidence, 0.001)
}

// selectors are those of an agent for one key.
type selectors struct {
	t          *testing.T
	m          *memory.Memories
	agent, key string
	steps      int
}

func newSelectors(t *testing.T) *selectors {
	t.Helper()
	f := tasktest.New(t)
	f.User("ann", "basic")
	f.User("bob", "basic")
	f.User("root", "admin")
	m := memory.New(memory.Config{Store: f.Store, Recorder: f.Recorder, Redact: &redact.Redactor{}})
	return &selectors{t: t, m: m, agent: f.Agent("clerk", persona.ScopeTask), key: "shop.example.com/orders the export link"}
}

func (s *selectors) use(user string, value any, hit, missed bool) {
	s.t.Helper()
	s.steps++
	require.NoError(s.t, s.m.UseSelector(s.t.Context(), visibility.As(tasktest.Org, user, "basic"), memory.Draft{
		Scope: scope.Scope{Kind: scope.Agent, ID: s.agent}, Key: s.key, Value: value,
		Source: memory.Source{Kind: memory.ByAgent, User: user, AgentID: s.agent, StepID: fmt.Sprint("step_", s.steps)},
	}, hit, missed))
}

func (s *selectors) of(user string) []db.Memory {
	s.t.Helper()
	rows, err := s.m.Selectors(s.t.Context(), scope.Run{Viewer: visibility.As(tasktest.Org, user, "basic"), AgentID: s.agent}, 1000)
	require.NoError(s.t, err)
	return rows
}
