package worker

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// The speeds at which users want runs to work, besides normal.
const (
	fast    = "fast"
	careful = "careful"
)

const (
	// leastThinking is the smallest budget that providers take, in tokens, and muchThinking one
	// from which the effort counts as high.
	leastThinking, muchThinking = 1024, 8193
)

// pace is a model of a provider that thinks as much as the user's speed says.
type pace struct {
	model.Model

	of provider.Provider
}

// Generate implements model.Model.
func (p pace) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	if thinking := paced(req.Thinking, req.Speed, p.of, req.MaxTokens); thinking != req.Thinking {
		mine := *req // other models get it, too
		mine.Thinking, req = thinking, &mine
	}
	return p.Model.Generate(ctx, req, sink)
}

// paced returns how a model thinks for a user who wants fast or careful runs. What a persona says
// is halved or doubled, and stays below what a turn may write. Where it says nothing, careful runs
// get a budget of providers all of whose models that think take one.
func paced(t persona.Thinking, speed string, of provider.Provider, maxTokens int) persona.Thinking {
	switch {
	case speed == fast && t.Adaptive:
		return persona.Thinking{}
	case speed == fast && t.Tokens > 0:
		return persona.Thinking{Tokens: min(t.Tokens, max(t.Tokens/2, leastThinking))}
	case speed == careful && t.Tokens > 0:
		// It is a part of what a turn may write.
		return persona.Thinking{Tokens: max(t.Tokens, min(2*t.Tokens, maxTokens*3/4))}
	case speed == careful && !t.Adaptive && of.Responses:
		return persona.Thinking{Tokens: muchThinking} // it gets an effort, and no number
	case speed == careful && !t.Adaptive && of.Format == provider.Gemini && maxTokens/2 >= leastThinking:
		return persona.Thinking{Tokens: maxTokens / 2}
	}
	return t
}
