package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// What agent init writes is a valid persona, also with every key that it explains switched
// on, and the values that it shows as defaults are the defaults.
func TestInitExplainsKeysThatAreValid(t *testing.T) {
	t.Parallel()
	for _, o := range []initOptions{
		{name: "log-reader", provider: "anthropic", model: "claude-sonnet-5-5"}, {name: "try", provider: "script"},
	} {
		text := o.persona(o.name)
		written, err := persona.Parse("x.md", []byte(text), persona.Vocabulary{})
		require.NoError(t, err)
		require.Equal(t, o.name, written.Name)

		if o.provider == persona.ProviderScript {
			continue // some of the keys do nothing with it
		}
		all := regexp.MustCompile(`(?m)^#([a-z]|  )`).ReplaceAllString(text, "$1")
		require.Greater(t, strings.Count(text, "\n#"), strings.Count(all, "\n#"))
		full, err := persona.Parse("x.md", []byte(all), persona.Vocabulary{})
		require.NoError(t, err, all)
		require.Equal(t, written.Limits, full.Limits)
		require.Equal(t, written.MaxTokens, full.MaxTokens)
		require.Equal(t, written.Workspace.SizeBytes, full.Workspace.SizeBytes)
		require.Equal(t, 50, written.Limits.Iterations)
		require.Equal(t, 30*time.Minute, written.Limits.ActiveTime)
		for _, key := range []string{
			"title", "avatar", "goal", "fallbacks", "max_tokens", "mode", "approvals", "limits", "agents", "nodes", "workspace", "jail", "trust", "egress", "triggers",
		} {
			require.Regexp(t, `(?m)^#`+key+`:`, text)
		}
	}
}

// Nothing that is there is written over.
func TestInitWritesNothingOver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mine.md")
	e := &env.Env{Err: &bytes.Buffer{}}
	o := initOptions{provider: "script"}
	require.NoError(t, o.write(e, path))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(first), "name: mine\n")
	require.Contains(t, string(first), "script: mine.script.yaml\n")
	require.ErrorContains(t, o.write(e, path), "already")
	require.ErrorContains(t, (&initOptions{provider: "script"}).write(e, filepath.Join(t.TempDir(), "Not a name.md")), "lower-case letters")
}
