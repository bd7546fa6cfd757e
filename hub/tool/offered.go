package tool

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// patchModels are the beginnings of the names of the models that are trained on the format
// of apply_patch.
var patchModels = []string{"gpt-4.1", "gpt-5", "gpt-6", "o3", "o4", "codex"}

// Offered returns the records of the tools that a persona's model is told of, in order. All
// that edit files may use apply_patch, and all that read files file_view; only models that
// are trained on the one, and those that see, are offered them unasked.
func (r *Registry) Offered(p *persona.Persona, providerName, model string) []*deckhandv1.Tool {
	family := model[strings.LastIndexByte(model, '/')+1:] // openai/gpt-5
	unasked := map[string]bool{
		toolname.ApplyPatch: slices.ContainsFunc(patchModels, func(begin string) bool { return strings.HasPrefix(family, begin) }),
		toolname.FileView:   provider.ModelInfo(providerName, model).Images,
	}
	return slices.DeleteFunc(r.For(p), func(t *deckhandv1.Tool) bool {
		fits, known := unasked[t.GetName()]
		return known && !fits && !slices.Contains(p.Tools, t.GetName())
	})
}
