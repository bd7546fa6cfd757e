package up

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/version"
)

// The database says itself which release changed it: also one that is not in the data
// folder, and one that was restored into it.
func TestADatabaseOfANewerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	url, dir := storetest.Database(t), t.TempDir()
	require.NoError(t, checkSchema(t.Context(), url, dir))
	require.NoError(t, checkSchema(t.Context(), postgrestest.Database(t), dir), "an empty one")

	latest, err := store.Latest()
	require.NoError(t, err)
	storetest.SetSchema(t, url, latest+1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, formatFile), []byte(`{"format":1,"version":"99.1.0"}`), 0o600))
	err = checkSchema(t.Context(), url, dir)
	require.True(t, fault.Is(err, fault.Precondition))
	require.ErrorContains(t, err, "a newer release, Deckhand 99.1.0")
	require.Contains(t, fault.As(err).Fix, "restore the backup from before the upgrade")
}

func TestADataFolderOfAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, checkFormat(dir), "a new folder")
	put := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, formatFile), []byte(text), 0o600))
	}
	put(`{"format":99,"version":"99.1.0"}`)
	require.ErrorContains(t, checkFormat(dir), "a newer release, Deckhand 99.1.0 (format 99)")
	put(`{"format":0,"version":"0.0.1"}`)
	require.ErrorContains(t, checkFormat(dir), "an old release, Deckhand 0.0.1")
	put(`{"format":`)
	require.ErrorContains(t, checkFormat(dir), "is damaged")

	// A schema that was noted by an earlier release does not count: after a restore it is wrong.
	put(`{"format":1,"schema":99999,"version":"99.1.0"}`)
	require.NoError(t, checkFormat(dir))
	require.NoError(t, writeFormat(dir))
	have, err := readFormat(dir)
	require.NoError(t, err)
	require.Equal(t, format{Format: newestFormat, Version: version.Version}, have)
}
