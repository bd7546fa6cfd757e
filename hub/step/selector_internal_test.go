package step

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// An entry is a target only if it is one in form and in size, whoever wrote it: a browser is not
// given others, and an agent cannot store one.
func TestOnlyEntriesWithTheFormOfATargetAreTargets(t *testing.T) {
	t.Parallel()
	const key = "shop.example.com/orders the export link"
	is, ok := targetOf(key, json.RawMessage(`{"role":"link","name":"Export","nth":1}`))
	require.True(t, ok)
	require.Equal(t, browserlink.Target{Page: "shop.example.com/orders", Words: "the export link", Role: "link", Name: "Export"}, is)
	for name, one := range map[string]struct{ key, value string }{
		"a long name":         {key, `{"role":"link","name":"` + strings.Repeat("x", 60<<10) + `"}`},
		"a name of two lines": {key, `{"role":"link","name":"Export\nall"}`},
		"no role":             {key, `{"name":"Export"}`},
		"no name":             {key, `{"role":"link"}`},
		"another role":        {key, `{"role":"a b","name":"Export"}`},
		"a text":              {key, `"the link at the top"`},
		"no words":            {"shop.example.com/orders", `{"role":"link","name":"Export"}`},
		"long words":          {"shop.example.com/ " + strings.Repeat("x", 201), `{"role":"link","name":"Export"}`},
	} {
		_, ok := targetOf(one.key, json.RawMessage(one.value))
		require.False(t, ok, name)
	}
}
