package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a daemon was writing when it was killed is not left in the folder.
func TestAFileHasNoNameUntilItIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, err := os.Open(dir)
	require.NoError(t, err)
	defer folder.Close()
	f, err := unnamed(folder)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("whole")
	require.NoError(t, err)
	seen, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, seen)

	require.NoError(t, link(f, folder, "name"))
	data, err := os.ReadFile(filepath.Join(dir, "name"))
	require.NoError(t, err)
	require.Equal(t, "whole", string(data))
	require.ErrorIs(t, link(f, folder, "name"), os.ErrExist, "nothing is replaced")
}
