package tool

import (
	"testing"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestGitStatusInWords(t *testing.T) {
	t.Parallel()
	require.Empty(t, gitStatus(nil))
	require.Empty(t, gitStatus(&nodev1.GitStatusResponse{Branch: "main"}), "what was not compared is not said to be clean")
	require.Equal(t, "nothing changed since it was added or committed, and no file that is not tracked", gitStatus(&nodev1.GitStatusResponse{Compared: true}))
	require.Equal(t, "1 changed: a.go; 22 not tracked: x, y/ and 20 more", gitStatus(&nodev1.GitStatusResponse{
		Compared: true, Changed: &nodev1.GitStatusResponse_Paths{Count: 1, Paths: []string{"a.go"}},
		Untracked: &nodev1.GitStatusResponse_Paths{Count: 22, Paths: []string{"x", "y/"}},
	}))
}

func TestWhereInstructionsMayBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ touched, want []string }{
		{[]string{"main.go"}, nil},
		{[]string{"a/b/main.go"}, []string{"a/AGENTS.md", "a/b/AGENTS.md"}},
		{[]string{"/workspace/a/main.go", "./a/other.go"}, []string{"a/AGENTS.md"}},
		{[]string{"a/node_modules/x/index.js"}, []string{"a/AGENTS.md"}},
		{[]string{"node_modules/x/index.js", "", "/etc/passwd", "../x/y", "/workspace"}, nil},
		{[]string{"a/from.go", "b/to.go"}, []string{"a/AGENTS.md", "b/AGENTS.md"}},
	} {
		require.Equal(t, c.want, instructionsFor(c.touched), c.touched)
	}
}
