package worker

import (
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
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

// paced returns how a model thinks for a user who wants fast or careful runs. What a persona says
// is halved or doubled. Where it says nothing, only providers get a budget all of whose models
// that think take one.
func paced(t persona.Thinking, speed, of string, maxTokens int) persona.Thinking {
	p, _ := provider.Of(of)
	takes := p.Responses || p.Format == provider.Gemini
	switch {
	case speed == fast && t.Adaptive:
		return persona.Thinking{}
	case speed == fast && t.Tokens > 0:
		return persona.Thinking{Tokens: max(t.Tokens/2, leastThinking)}
	case speed == fast && takes:
		return persona.Thinking{Tokens: leastThinking}
	case speed == careful && t.Tokens > 0:
		// It is a part of what a turn may write.
		return persona.Thinking{Tokens: max(t.Tokens, min(2*t.Tokens, maxTokens*3/4))}
	case speed == careful && !t.Adaptive && p.Responses:
		return persona.Thinking{Tokens: muchThinking}
	case speed == careful && !t.Adaptive && takes && maxTokens/2 >= leastThinking:
		return persona.Thinking{Tokens: maxTokens / 2}
	}
	return t
}
