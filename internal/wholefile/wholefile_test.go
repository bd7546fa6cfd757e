package wholefile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

func TestAFileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	require.NoError(t, wholefile.Write(path, []byte("a long first content"), 0o600))
	old, err := os.Open(path)
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, wholefile.Write(path, []byte("second"), 0o644))

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "second", string(data))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o644), info.Mode())
	was := make([]byte, 20)
	_, err = old.Read(was)
	require.NoError(t, err)
	assert.Equal(t, "a long first content", string(was), "a reader that has the old file open reads all of it")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing else is left in the folder")
}

func TestALinkInTheFilesPlaceIsReplacedAndNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(target, []byte("untouched"), 0o600))
	require.NoError(t, os.Symlink(target, path))
	require.NoError(t, wholefile.Write(path, []byte("new"), 0o600))
	data, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "untouched", string(data))
}

func TestAFailedWriteLeavesTheOldFileAndNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "occupied")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a folder that no file replaces"), 0o700))
	require.ErrorContains(t, wholefile.Write(path, []byte("new"), 0o600), "write "+path)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
	require.ErrorIs(t, wholefile.Write(filepath.Join(dir, "missing", "file"), nil, 0o600), fs.ErrNotExist)
}
