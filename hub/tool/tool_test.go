package tool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
)

// F1, H7: of every tool it is known whether it can be undone, and what cannot.
func TestEveryToolSaysWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	for _, name := range r.Names() {
		one := r.Get(name)
		said := 0
		for _, yes := range []bool{one.ReadOnly, one.Reversible, one.Irreversible != ""} {
			if yes {
				said++
			}
		}
		require.Equal(t, 1, said, "%s is read-only, or reversible, or says what is not", name)
		require.Equal(t, one.Irreversible, r.Record(name).GetIrreversible())
		require.Equal(t, one.Reversible, r.Record(name).GetReversible())
	}
	require.Contains(t, r.Irreversible(), "shell_exec")
	require.NotContains(t, r.Irreversible(), "file_delete")
}
