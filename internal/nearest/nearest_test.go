package nearest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/nearest"
)

func TestFirstSuggestsOnlyANameThatIsNear(t *testing.T) {
	t.Parallel()
	names := []string{"builder", "log-triage", "qa"}
	require.Equal(t, "builder", nearest.First("bilder", names))
	require.Equal(t, "log-triage", nearest.First("Log-Triag", names))
	require.Equal(t, "qa", nearest.First("q", names))
	require.Empty(t, nearest.First("deployer", names))
	require.Empty(t, nearest.First("qa", nil))
}

func TestSortPutsTheNearestFirstAndKeepsTheOrderOfTheOthers(t *testing.T) {
	t.Parallel()
	names := []string{"zebra", "builder", "alpha", "builder-2"}
	require.Equal(t, []string{"builder-2", "builder", "zebra", "alpha"}, nearest.Sort("BUILDER-3", names))
	require.Equal(t, []string{"zebra", "builder", "alpha", "builder-2"}, names, "the candidates stay as they were")
	require.Empty(t, nearest.Sort("x", nil))
}
