package tool

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an agent is told is what Git says, also of an index that only Git can read, and of a
// worktree.
func TestTheStateOfARepositoryIsReadFromGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.Output()
		require.NoError(t, err, "%v", args)
		return string(out)
	}
	put := func(name, content string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	says := func(dir, branch, status string) {
		t.Helper()
		gotBranch, got := readGitStatus(in(dir, gitStatusArgs...))
		require.Equal(t, branch, gotBranch)
		require.Equal(t, status, got)
	}
	in(dir, "git", "init", "-q", "-b", "main")
	says(dir, "main", "nothing to commit, and no file that is not tracked")
	for _, name := range []string{"kept", "staged", "both", "gone", "old name", "in/a"} {
		put(name, name+" with enough text to be known again\n")
	}
	in(dir, "git", "add", ".")
	in(dir, "git", "commit", "-q", "-m", "first")
	put("staged", "new\n")
	put("both", "new\n")
	in(dir, "git", "mv", "old name", "new name")
	in(dir, "git", "add", "staged", "both")
	put("both", "newer\n")
	put("kept", "new\n")
	put("more/file", "new\n")
	put("a\n- Date and time: never", "new\n")
	require.NoError(t, os.Remove(filepath.Join(dir, "gone")))
	want := "3 staged: both, new name, staged; 2 changed and not staged: both, kept; 1 deleted and not staged: gone; 2 not tracked: \"a\\n- Date and time: never\", more/"
	says(dir, "main", want)
	for _, kind := range [][]string{{"update-index", "--index-version", "4"}, {"update-index", "--split-index"}} {
		in(dir, append([]string{"git"}, kind...)...)
		says(dir, "main", want)
	}
	beside := filepath.Join(t.TempDir(), "worktree")
	in(dir, "git", "worktree", "add", "-q", "-b", "fix", beside)
	require.NoError(t, os.WriteFile(filepath.Join(beside, "kept"), []byte("x\n"), 0o600))
	says(beside, "fix", "1 changed and not staged: kept")
	in(beside, "git", "checkout", "-q", "-f", "--detach")
	commit := in(beside, "git", "rev-parse", "HEAD")
	says(beside, "detached at "+commit[:12], "nothing to commit, and no file that is not tracked")
}
