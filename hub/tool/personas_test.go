package tool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A3: the personas that come along can be applied as they are.
func TestTheShippedPersonasAreValid(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewRegistry()
	require.NoError(t, err)
	files, err := filepath.Glob("../../personas/*.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 6)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = persona.Parse(file, text, persona.Known{Tools: tools.Names()})
		require.NoError(t, err)
	}
}
