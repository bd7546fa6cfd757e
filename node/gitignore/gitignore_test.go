package gitignore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/gitignore"
)

// The nearest file that says anything about a path decides, and siblings do not see each
// other's rules.
func TestTheNearestRuleDecides(t *testing.T) {
	t.Parallel()
	root := gitignore.Rules{}.With(".", []byte("*.log\n/build/\n!keep.log\n"))
	sub := root.With("sub", []byte("!a.log\nsecret\n"))
	other := root.With("other", []byte("x\n"))
	for path, want := range map[string]bool{
		"a.log": true, "keep.log": false, "a.go": false, "build": false, ".git": true, "deep/.git": true, "deep/a.log": true,
	} {
		require.Equal(t, want, root.Ignored(path, false), path)
	}
	require.True(t, root.Ignored("build", true))
	require.False(t, root.Ignored("sub/build", true), "only at the root")
	require.False(t, sub.Ignored("sub/a.log", false))
	require.True(t, sub.Ignored("sub/b.log", false))
	require.True(t, sub.Ignored("sub/secret", false))
	require.False(t, other.Ignored("other/secret", false))
}
