package provider_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

func TestADateIsNoPartOfAModelsName(t *testing.T) {
	for name, want := range map[string]string{
		"claude-sonnet-4-5-20250929": "claude-sonnet-4-5", "gpt-5-2025-08-07": "gpt-5", "gpt-4o": "gpt-4o",
		"claude-sonnet-4-5": "claude-sonnet-4-5", "20250929": "20250929", "-20250929": "-20250929", "": "",
		"m-2025-0807": "m-2025-0807", "m-120250929": "m-120250929", "x-latest": "x-latest",
	} {
		require.Equal(t, want, provider.Undated(name), name)
	}
}

func TestWhatAModelCanDo(t *testing.T) {
	require.EqualValues(t, 32_000, provider.ModelInfo("anthropic", "claude-opus-4-1-20250805").OutputTokens, "the longest name that fits")
	require.False(t, provider.ModelInfo("openai", "gpt-4o-mini").Thinks)
	require.Equal(t, provider.Model{Thinks: true}, provider.ModelInfo("vllm", "my-own"), "of an unknown one the safe side")
	for _, name := range provider.Connectable() {
		p, ok := provider.Of(name)
		require.True(t, ok)
		require.NotEqual(t, provider.Script, p.Format)
	}
}
