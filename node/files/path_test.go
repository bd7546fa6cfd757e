package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

func TestCleanPathIsBelowTheWorkspace(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": ".", ".": ".", "/workspace": ".", "/workspace/": ".", "//workspace//a": "a", "a/../b": "b",
		"workspace/a": "workspace/a", "/workspace/workspace": "workspace", "..a": "..a", "a/..": ".",
		"/workspace/./a/": "a", "~": "~", "a b/ü": "a b/ü", "/x/../workspace/a": "a",
	} {
		got, err := clean(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func TestRefusalOfTheStandardLibraryIsKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, name := range []string{"..", "up/x", "/etc"} {
		_, err = root.Stat(name)
		require.True(t, escapes(err), "%v", err)
	}
	_, err = root.Stat("absent")
	require.Error(t, err)
	require.False(t, escapes(err))
	require.False(t, escapes(nil))
}

func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"", "a/b", "/workspace/../x", "../", "/", "\x00", "/workspace", strings.Repeat("../", 50)} {
		f.Add(seed)
	}
	root, err := os.OpenRoot(f.TempDir())
	require.NoError(f, err)
	f.Cleanup(func() { _ = root.Close() })
	f.Fuzz(func(t *testing.T, in string) {
		got, err := clean(in)
		if err != nil {
			require.NotNil(t, fault.As(err))
			return
		}
		require.True(t, filepath.IsLocal(got), "%q from %q", got, in)
		again, err := clean(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
		// In an empty workspace there is nothing that could lead out.
		_, err = root.Lstat(got)
		require.False(t, escapes(err))
	})
}
