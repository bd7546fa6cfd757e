package tool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBranchOf(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		"ref: refs/heads/main\n": "main", "ref: refs/heads/feature/a-b\n": "feature/a-b",
		"0123456789abcdef0123456789abcdef01234567\n": "detached at 0123456789ab",
		"": "", "ref: refs/heads/a\nb": "", "something else": "", "ref: refs/remotes/x": "",
	} {
		require.Equal(t, want, branchOf(head), head)
	}
}
