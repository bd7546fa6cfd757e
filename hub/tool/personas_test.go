package tool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// The personas that come along can be applied as they are.
func TestTheShippedPersonasAreValid(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewRegistry()
	require.NoError(t, err)
	files, err := filepath.Glob("../../personas/*.md")
	require.NoError(t, err)
	for _, name := range []string{"coder", "log-triage", "reviewer", "qa-tester", "db-migrator", "claude", "gpt", "gemini", "qwen", "mistral"} {
		require.Contains(t, files, "../../personas/"+name+".md")
	}
	prices := price.Shipped()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		p, err := persona.Parse(file, text, persona.Vocabulary{Tools: tools.Listable(), Providers: provider.Runnable()})
		require.NoError(t, err)
		_, priced := prices.Of(p.Provider, p.Model)
		require.True(t, priced, "%s names a model without a price", file)
	}
}
