package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A user's speed changes how much a model thinks, within what a turn may write and what the
// provider takes.
func TestSpeedChangesHowMuchAModelThinks(t *testing.T) {
	t.Parallel()
	tokens := func(n int) persona.Thinking { return persona.Thinking{Tokens: n} }
	adaptive, none := persona.Thinking{Adaptive: true}, persona.Thinking{}
	for _, c := range []struct {
		is       persona.Thinking
		speed    string
		provider string
		want     persona.Thinking
	}{
		{tokens(4000), "", "anthropic", tokens(4000)},
		{tokens(4000), "normal", "anthropic", tokens(4000)},
		{tokens(4000), fast, "anthropic", tokens(2000)},
		{tokens(1200), fast, "anthropic", tokens(1024)},
		{adaptive, fast, "anthropic", none},
		{none, fast, "anthropic", none},
		{none, fast, "openai", tokens(1024)},
		{tokens(2000), careful, "anthropic", tokens(4000)},
		{tokens(5000), careful, "anthropic", tokens(6144)},
		{tokens(8000), careful, "anthropic", tokens(8000)},
		{adaptive, careful, "anthropic", adaptive},
		{none, careful, "anthropic", none},
		{none, careful, "openai", tokens(8193)},
		{none, careful, "gemini", tokens(4096)},
		{none, careful, "vllm", none},
	} {
		require.Equal(t, c.want, paced(c.is, c.speed, c.provider, 8192), "%v %s %s", c.is, c.speed, c.provider)
	}
}
