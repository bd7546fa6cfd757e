package systemd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/packaging/systemd"
)

// A service of root runs only a program that nobody but root can replace.
func TestAProgramThatOthersCanReplaceIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("it makes files of other users")
	}
	group := 0
	made := func(owner int, folder, file os.FileMode) string {
		dir := filepath.Join(t.TempDir(), "bin")
		path := filepath.Join(dir, "deckhand")
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chmod(path, file))
		require.NoError(t, os.Chmod(dir, folder))
		require.NoError(t, os.Chown(path, owner, group))
		require.NoError(t, os.Chown(dir, 0, group))
		return path
	}
	good := made(0, 0o755, 0o755)
	require.NoError(t, systemd.CheckProgram(good))
	require.NoError(t, systemd.CheckProgram(made(0, 0o777|os.ModeSticky, 0o755)))
	require.NoError(t, systemd.CheckProgram(made(0, 0o775, 0o775)), "root's group may write")
	group = 50 // Debian's staff, to whom older releases give /usr/local
	link := filepath.Join(t.TempDir(), "deckhand")
	foreign := made(1234, 0o755, 0o755)
	require.NoError(t, os.Symlink(foreign, link))
	for path, says := range map[string]string{
		foreign:                   "deckhand belongs to the user with id 1234",
		link:                      "deckhand belongs to the user with id 1234",
		made(0, 0o755, 0o775):     "may write to",
		made(0, 0o777, 0o755):     "bin (mode 0777)",
		made(0, 0o775, 0o755):     "chmod g-w,o-w",
		filepath.Join(good, "no"): "find the program",
	} {
		require.ErrorContains(t, systemd.CheckProgram(path), says)
	}
}
