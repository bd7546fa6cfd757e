package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// What is said of a repository is what Git says of it.
func TestGitStatusIsWhatGitSays(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	status := func() *nodev1.GitStatusResponse {
		t.Helper()
		st, err := s.GitStatus(t.Context(), &nodev1.GitStatusRequest{JailId: jailID})
		require.NoError(t, err)
		return st
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.quotePath=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		require.NoError(t, err, "git %v", args)
		return string(out)
	}
	// fromGit is what Git says, by kinds.
	fromGit := func() map[string][]string {
		out := map[string][]string{}
		for line := range strings.Lines(git("--no-optional-locks", "status", "--porcelain=v1")) {
			kind, name := line[:2], strings.TrimSpace(line[3:])
			switch {
			case kind == "??":
				out["untracked"] = append(out["untracked"], name)
			case kind == "UU":
				out["conflicted"] = append(out["conflicted"], name)
			case kind[1] == 'D':
				out["deleted"] = append(out["deleted"], name)
			case kind[1] != ' ':
				out["changed"] = append(out["changed"], name)
			}
		}
		return out
	}
	same := func() map[string][]string {
		t.Helper()
		st, ours := status(), map[string][]string{}
		require.True(t, st.GetCompared())
		for kind, paths := range map[string]*nodev1.GitStatusResponse_Paths{
			"changed": st.GetChanged(), "deleted": st.GetDeleted(), "conflicted": st.GetConflicted(), "untracked": st.GetUntracked(),
		} {
			if paths.GetCount() > 0 {
				ours[kind] = paths.GetPaths()
				slices.Sort(ours[kind])
			}
		}
		theirs := fromGit()
		for kind := range theirs {
			slices.Sort(theirs[kind])
		}
		require.Equal(t, theirs, ours)
		return ours
	}
	require.Empty(t, status().GetBranch(), "it is no repository")
	git("init", "-q", "-b", "main")
	require.Equal(t, "main", status().GetBranch())
	require.Empty(t, same())
	put(t, dir, map[string]string{
		"kept": "kept\n", "touched": "touched\n", "changed": "one\n", "same-size": "one\n", "gone": "gone", "to-link": "x", "script": "#!/bin/sh\n",
		"in/a/folder": "1", "in/b": "2", ".gitignore": "*.log\nbuilt/\n", "both": "base\n",
	})
	require.NoError(t, os.Symlink("kept", filepath.Join(dir, "link")))
	git("add", ".")
	git("commit", "-q", "-m", "first")
	require.Empty(t, same())

	put(t, dir, map[string]string{
		"changed": "one and two\n", "same-size": "two\n", "new": "new", "in/a/new": "new", "in/new/x": "x", "in/new/y": "y",
		"a.log": "ignored", "built/x": "ignored", "in/none/b.log": "only what is ignored",
	})
	require.NoError(t, os.Remove(filepath.Join(dir, "gone")))
	require.NoError(t, os.Remove(filepath.Join(dir, "to-link")))
	require.NoError(t, os.Symlink("kept", filepath.Join(dir, "to-link")))
	require.NoError(t, os.Chmod(filepath.Join(dir, "script"), 0o755))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "touched"), time.Time{}, time.Now().Add(time.Hour)))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "in/empty/too"), 0o755))
	found := same()
	require.Equal(t, []string{"changed", "same-size", "script", "to-link"}, found["changed"])
	require.Equal(t, []string{"in/a/new", "in/new/", "new"}, found["untracked"])

	git("checkout", "-q", "-f", ".")
	git("checkout", "-q", "-b", "other")
	put(t, dir, map[string]string{"both": "theirs\n"})
	git("commit", "-q", "-a", "-m", "theirs")
	git("checkout", "-q", "main")
	put(t, dir, map[string]string{"both": "ours\n"})
	git("commit", "-q", "-a", "-m", "ours")
	_ = exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "other").Run()
	require.Equal(t, []string{"both"}, same()["conflicted"])
	git("checkout", "-q", "-f", "--detach", "main")
	require.Equal(t, "detached at "+git("rev-parse", "--short=12", "HEAD")[:12], status().GetBranch())

	for _, kind := range [][]string{{"--index-version=4", "--index-version=2"}, {"--split-index", "--no-split-index"}} {
		git("update-index", kind[0])
		st := status()
		require.False(t, st.GetCompared(), "of an index of this kind nothing is said: %s", kind[0])
		require.Contains(t, st.GetBranch(), "detached at ")
		git("update-index", kind[1])
	}
	require.True(t, status().GetCompared())
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/index"), []byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"), 0o600))
	require.False(t, status().GetCompared(), "an index that is none")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte("ref: refs/heads/a\nb"), 0o600))
	require.Empty(t, status().GetBranch())
}
