package execid_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/execid"
)

func TestAnExecIDNamesItsStepAndRun(t *testing.T) {
	t.Parallel()
	for id, run := range map[string]int32{"step_1": 1, "step_1_2": 2, "step_1_x": 1} {
		require.Equal(t, "step_1", execid.Step(id), id)
		require.Equal(t, run, execid.Run(id), id)
	}
}
