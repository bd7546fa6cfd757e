package quota

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A pattern matches a model's whole name, and nothing of a pattern but * is
// special.
func TestPatternsOfModels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		patterns        []string
		provider, model string
		allowed         bool
	}{
		{nil, "anthropic", "claude-opus-4-5", true},
		{[]string{"anthropic/*"}, "anthropic", "claude-opus-4-5", true},
		{[]string{"anthropic/*"}, "openai", "gpt-5", false},
		{[]string{"*/gpt-5"}, "openai", "gpt-5", true},
		{[]string{"*/gpt-5"}, "openai", "gpt-5-mini", false},
		{[]string{"openai/gpt-5"}, "openai", "xgpt-5", false},
		{[]string{"openai/gpt-5", "compatible/*"}, "compatible", "meta/llama\n3", true},
		{[]string{"openai/gpt.5"}, "openai", "gpt-5", false},
		{[]string{"openai/(gpt-5|x"}, "openai", "gpt-5", false},
		{[]string{"openai/gpt-5"}, "script", "scripted", true},
	} {
		models, err := compile(tc.patterns)
		require.NoError(t, err, "%q", tc.patterns)
		require.Equal(t, tc.allowed, (&Subscription{models: models}).Allows(tc.provider, tc.model), "%q of %s/%s", tc.patterns, tc.provider, tc.model)
	}
}
