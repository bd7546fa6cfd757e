package workpath_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/workpath"
)

func TestPathsAreReadRelativeToTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": ".", ".": ".", "/workspace": ".", "/workspace/": ".", "a/b": "a/b", "/workspace/a//b/.": "a/b", "a/../b": "b", "/workspace/../workspace/a": "a",
	} {
		require.Equal(t, want, workpath.Rel(name), name)
		require.False(t, workpath.Outside(workpath.Rel(name)), name)
	}
	for _, name := range []string{"/etc", "/workspaces/a", "/workspace/../etc", "..", "../a", "a/../../b"} {
		require.True(t, workpath.Outside(workpath.Rel(name)), name)
	}
	require.False(t, workpath.Outside(workpath.Rel("..a")))
}
