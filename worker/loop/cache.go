package loop

import (
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// cacheDue is the turn after which the provider should have read from its cache.
const cacheDue = 6

// checkCache tells people, once for each task, that the provider's prompt cache is not
// used though this model has one: every turn then costs several times what it could.
func (r *run) checkCache(turn *deckhandv1.Turn) {
	if turn.GetTurn() != cacheDue {
		return
	}
	known := provider.ModelInfo(turn.GetProvider(), turn.GetModel())
	prompt := promptTokens(turn)
	if known.CacheTokens == 0 || prompt == 0 {
		return
	}
	apart, several := time.Duration(0), false
	for i, t := range r.turns {
		if t.GetUsage().GetCacheReadTokens() > 0 {
			return
		}
		if i == 0 {
			continue
		}
		before := r.turns[i-1]
		several = several || before.GetModel() != t.GetModel()
		if gap := t.GetCreatedAt().AsTime().Sub(before.GetCreatedAt().AsTime()); i == 1 || gap < apart {
			apart = gap
		}
	}
	reason := "the provider, or what stands before it, does not keep the prompt or does not say so"
	switch ttl := r.cfg.Persona.CacheTTL; {
	case prompt < known.CacheTokens:
		reason = fmt.Sprintf("the prompt has %d tokens, and %s caches prompts from %d on", prompt, turn.GetModel(), known.CacheTokens)
	case apart > ttl:
		reason = fmt.Sprintf("the turns are further apart than the cache is kept (%s): write cache_ttl: 1h in the persona", ttl)
	case several:
		reason = "the turns came from different models, and each has a cache of its own"
	}
	r.out.add(eventkind.CacheMissed, map[string]any{"turns": turn.GetTurn(), "prompt_tokens": prompt, "reason": reason})
}

// promptTokens is what the provider counted of the request for a turn.
func promptTokens(turn *deckhandv1.Turn) int64 {
	u := turn.GetUsage()
	return u.GetInputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
}
