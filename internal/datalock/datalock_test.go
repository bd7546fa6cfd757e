package datalock_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"os"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/datalock"
)

func TestASecondOneIsToldWhoHoldsTheFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := datalock.Lock(path, "deckhand up")
	require.NoError(t, err)
	_, err = datalock.Lock(path, "deckhand up")
	require.ErrorContains(t, err, "another deckhand up (process "+strconv.Itoa(os.Getpid())+")")
	require.ErrorContains(t, err, "--data-dir")
	require.NoError(t, unlock())
	unlock, err = datalock.Lock(path, "deckhand up")
	require.NoError(t, err)
	require.NoError(t, unlock())
	_, err = datalock.Lock(filepath.Join(path, "below", "a", "file"), "deckhand up")
	require.ErrorContains(t, err, "data folder")
}
