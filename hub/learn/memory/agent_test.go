package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
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
