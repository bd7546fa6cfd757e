package tool_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
)

// Every tool's call is said with a verb and its object, and never by the tool's identifier.
func TestEveryToolHasASentence(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	for _, name := range r.Names() {
		said := tool.Sentence(name, map[string]any{"path": "a.txt", "from": "a", "to": "b", "url": "https://x.example/y"}, "the jail of coder on web-1")
		require.NotContains(t, said, "_", "the sentence of %s has an identifier", name)
		require.NotContains(t, said, "\n")
	}
}

func TestSentencesNameTheirObject(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		tool      string
		arguments map[string]any
	}{
		"Run a command in the jail of coder on web-1": {"shell_exec", map[string]any{"command": "set -e\nls"}},
		"Delete old":                                {"file_delete", map[string]any{"path": "old", "recursive": true}},
		"Move a.txt to b.txt":                       {"file_move", map[string]any{"from": "a.txt", "to": "b.txt"}},
		"Send POST to api.example.com:8443":         {"http_post", map[string]any{"url": "https://user@api.example.com:8443/x?y=/"}},
		"Push the branch deckhand/fix to origin":    {"git_push", map[string]any{"ref": "deckhand/fix"}},
		"Comment on pull request #7 of acme/web":    {"pull_request_comment", map[string]any{"repository": "acme/web", "number": float64(7)}},
		"Call the tool add of the server sums":      {"mcp__sums__add", nil},
		"Have the agent tester do: Run the tests":   {"delegate", map[string]any{"agent": "tester", "goal": "Run the tests\nand more"}},
		"Write " + strings.Repeat("x", 200) + "...": {"file_write", map[string]any{"path": strings.Repeat("x", 300)}},
	} {
		require.Equal(t, want, tool.Sentence(c.tool, c.arguments, "the jail of coder on web-1"))
	}
}
