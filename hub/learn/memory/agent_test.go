package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// What people have rejected stays so when an agent writes it again, until it writes something else.
func TestAnAgentDoesNotRaiseTheConfidenceInWhatItRepeats(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	f.User("ann", "basic")
	m := memory.New(memory.Config{Store: f.Store, Recorder: f.Recorder, Redact: &redact.Redactor{}})
	v := visibility.As(tasktest.Org, "ann", "basic")
	write := func(step, value string) float64 {
		is, err := m.Remember(t.Context(), v, memory.Draft{
			Scope: scope.Scope{Kind: scope.User, ID: "user_ann"}, Type: memory.Fact, Key: "release day", Value: value, Confidence: 0.8,
			Source: memory.Source{Kind: memory.ByAgent, StepID: step},
		})
		require.NoError(t, err)
		return is.Confidence
	}
	require.InDelta(t, 0.8, write("step_1", "Tuesday"), 0.001)
	f.Exec("UPDATE memories SET confidence = 0.3")
	require.InDelta(t, 0.3, write("step_2", "Tuesday"), 0.001)
	require.InDelta(t, 0.8, write("step_3", "Wednesday"), 0.001)
}

// A correction changes the entry with that id, also where another one has the same key, and the
// same people see it as before. A value that is not a text is not corrected by a text.
func TestACorrectionChangesExactlyTheEntry(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	f.User("ann", "admin")
	f.User("bob", "basic")
	m := memory.New(memory.Config{Store: f.Store, Recorder: f.Recorder, Redact: &redact.Redactor{}})
	ann, bob := visibility.As(tasktest.Org, "ann", "admin"), visibility.As(tasktest.Org, "bob", "basic")
	d := memory.Draft{
		Scope: scope.Scope{Kind: scope.Agent, ID: f.Agent("coder", persona.ScopeTask)}, Type: memory.Fact, Key: "deploy host", Value: "everybody's", Confidence: 1,
	}
	all, err := m.Set(t.Context(), ann, "admin", d, tasktest.By("ann"))
	require.NoError(t, err)
	run := func(v visibility.Viewer) string {
		d.Value, d.Source = "of a run", memory.Source{Kind: memory.ByAgent, User: v.Name, StepID: "step_" + v.Name}
		is, err := m.Remember(t.Context(), v, d)
		require.NoError(t, err)
		require.Equal(t, "user_"+v.Name, is.OnlyFor)
		return is.ID
	}
	anns, bobs := run(ann), run(bob)
	value := func(v visibility.Viewer, id string) string {
		is, err := m.Get(t.Context(), v, id)
		require.NoError(t, err)
		return string(is.Memory.Value)
	}
	require.NoError(t, memory.Correct(t.Context(), m, ann, "admin", anns, "secret of ann", tasktest.By("ann")))
	require.Equal(t, `"secret of ann"`, value(ann, anns))
	require.Equal(t, `"everybody's"`, value(ann, all.Memory.ID))
	require.True(t, fault.Is(memory.Correct(t.Context(), m, bob, "basic", all.Memory.ID, "x", tasktest.By("bob")), fault.Denied))
	require.Equal(t, `"of a run"`, value(bob, bobs))
	require.NoError(t, memory.Correct(t.Context(), m, bob, "basic", bobs, "of bob", tasktest.By("bob")))
	require.Equal(t, `"of bob"`, value(bob, bobs))

	d.Key, d.Value = "structured", map[string]any{"host": "a"}
	object, err := m.Set(t.Context(), ann, "admin", d, tasktest.By("ann"))
	require.NoError(t, err)
	require.True(t, fault.Is(memory.Correct(t.Context(), m, ann, "admin", object.Memory.ID, "a text", tasktest.By("ann")), fault.Invalid))
	require.JSONEq(t, `{"host": "a"}`, value(ann, object.Memory.ID))
}
