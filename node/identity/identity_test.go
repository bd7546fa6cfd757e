package identity_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/identity"
)

// Enrolment is tested where the hub's side of it is: in hub/fleet/enroll.

func open(t *testing.T, dir string) *identity.Identity {
	t.Helper()
	id, err := identity.Open(identity.Config{Dir: dir})
	require.NoError(t, err)
	return id
}

func TestTheKeyIsMadeOnceAndForRootAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "identity")
	id := open(t, dir)
	require.False(t, id.Enrolled())
	folder, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm())
	file, err := os.Stat(filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), file.Mode().Perm())
	before, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	open(t, dir)
	after, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestWhatACrashLeftHalfWrittenIsNoHarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"key.pem.tmp", "node.json.tmp", "session.json.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	id := open(t, dir)
	require.NoError(t, id.AdvanceEpoch(3))
	require.Error(t, open(t, dir).AdvanceEpoch(2))
}

func TestFilesThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"key.pem":      "not a key",
		"node.json":    `{"node_id":"node_1","ca_pem":"no"}`,
		"session.json": "{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			_, err := identity.Open(identity.Config{Dir: dir})
			require.ErrorContains(t, err, filepath.Join(dir, name))
		})
	}
}

func TestEpochsNeverGoBackAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(t, err)
		id := open(t, dir)
		var highest int64
		for _, epoch := range rapid.SliceOfN(rapid.Int64Range(1, 10), 1, 12).Draw(rt, "epochs") {
			if rapid.Bool().Draw(rt, "restart") {
				id = open(t, dir)
			}
			err := id.AdvanceEpoch(epoch)
			if epoch < highest {
				require.True(t, fault.Is(err, fault.Aborted))
				continue
			}
			require.NoError(t, err)
			highest = epoch
		}
	})
}
