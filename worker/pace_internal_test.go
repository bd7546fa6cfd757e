package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
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
		{tokens(256), fast, "anthropic", tokens(256)},
		{none, fast, "openai", none},
		{none, fast, "gemini", none},
		{tokens(2000), careful, "anthropic", tokens(4000)},
		{tokens(5000), careful, "anthropic", tokens(6144)},
		{tokens(8000), careful, "anthropic", tokens(8000)},
		{adaptive, careful, "anthropic", adaptive},
		{none, careful, "anthropic", none},
		{none, careful, "openai", tokens(8193)},
		{none, careful, "gemini", tokens(4096)},
		{none, careful, "vllm", none},
	} {
		of, _ := provider.Of(c.provider)
		require.Equal(t, c.want, paced(c.is, c.speed, of, 8192), "%v %s %s", c.is, c.speed, c.provider)
		if now := paced(c.is, c.speed, of, 256); c.provider != "openai" && c.is == none {
			require.Equal(t, none, now, "a turn has no room for it")
		}
	}
}

// asked keeps the request that it gets.
type asked struct{ got *model.Request }

func (a *asked) Generate(_ context.Context, req *model.Request, _ model.Sink) (*deckhandv1.Turn, error) {
	a.got = req
	return nil, nil
}

// Each model of a run gets the speed as its own provider takes it, whichever is the first.
func TestAFallbackGetsTheSpeedOfItsOwnProvider(t *testing.T) {
	t.Parallel()
	req := &model.Request{MaxTokens: 8192, Speed: careful}
	for name, want := range map[string]int{"openai": muchThinking, "anthropic": 0, "gemini": 4096} {
		of, _ := provider.Of(name)
		a := &asked{}
		_, err := pace{a, of}.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, want, a.got.Thinking.Tokens, name)
		require.Zero(t, req.Thinking)
	}
}
