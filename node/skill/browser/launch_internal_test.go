package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The jail's own Chromium is used if there is one, and else that of the node's pack.
func TestChromiumOfAPackIsForJailsWithoutOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := func(parts ...string) string {
		path := filepath.Join(append([]string{dir}, parts...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o755))
		return path
	}
	own, packs := filepath.Join(dir, "own"), filepath.Join(dir, "packs")
	_, err := findIn("", []string{own}, packs)
	require.ErrorIs(t, err, errNoBrowser)
	require.ErrorContains(t, err, "deckhand node pack fetch NODE chromium")
	packed := program("packs", "version", "chrome-linux64", "chrome")
	require.NoError(t, os.Symlink("version", filepath.Join(packs, "current")))
	found, err := findIn("", []string{own}, packs)
	require.NoError(t, err)
	require.Equal(t, packed, found, "by the path of its version")
	program("own")
	found, err = findIn("", []string{own}, packs)
	require.NoError(t, err)
	require.Equal(t, own, found)
}
