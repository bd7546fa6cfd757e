package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The root key is replaced while a hub runs. Afterwards the old one does not open the
// database any more, and a run that was interrupted is finished by the next.
func TestTheRootKeyIsReplacedWhileAHubRuns(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	keyset := filepath.Join(f.Dir, "keyset.json")
	read := func(path string) string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(data)
	}
	rotate := func(code int, args ...string) string {
		r := harness.Run(t, []string{"DECKHAND_DATABASE_URL=" + f.Database}, append([]string{"vault", "rotate-root", "--data-dir", f.Dir}, args...)...)
		require.Equal(t, code, r.Code, r.Err)
		require.Empty(t, r.Out)
		return r.Err
	}
	// refused holds that a hub with that root key does not start.
	refused := func(content string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "keyset.json"), []byte(content), 0o600))
		p := harness.Start(t, []string{"DECKHAND_DATABASE_URL=" + f.Database}, harness.Binary(t, "deckhand"), "hub", "--data-dir", dir,
			"--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0")
		select {
		case <-p.Done:
		case <-time.After(time.Minute):
			require.Fail(t, "the hub started")
		}
		require.Contains(t, p.Output.String(), "cannot be opened with the key that --keyset-key names")
	}
	first := read(keyset)
	said := rotate(0)
	require.NotContains(t, said, f.Database)
	second := read(keyset)
	require.NotEqual(t, first, second)
	kept, err := filepath.Glob(keyset + ".*")
	require.NoError(t, err)
	require.Len(t, kept, 1, "the old root key, and nothing half done")
	require.Contains(t, said, kept[0])
	require.Equal(t, first, read(kept[0]))
	info, err := os.Stat(keyset)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	refused(first)

	// The hub that runs finds the new root key by itself.
	var before, after struct{ PrimaryKey int64 }
	f.JSON(&before, "vault", "show")
	f.JSON(&after, "vault", "rotate")
	require.NotEqual(t, before, after)
	require.Contains(t, f.CLI(0, "audit", "list").Out, "vault.root_replaced")

	// What a run leaves that ends between the database and the file.
	require.NoError(t, os.Rename(keyset, keyset+".new"))
	require.NoError(t, os.Rename(kept[0], keyset))
	require.Contains(t, rotate(0), "already")
	require.Equal(t, second, read(keyset))

	// Another location, which the hubs are started with.
	other := "file://" + filepath.Join(t.TempDir(), "root.json")
	require.Contains(t, rotate(0, "--new-keyset-key", other), "--keyset-key "+other)
	refused(second)
	f.Hub.Stop(t)
	f.StartHub("--keyset-key", other)
	f.JSON(&after, "vault", "show")

	require.Contains(t, rotate(1, "--keyset-key", "file:///nowhere/keyset.json"), "cannot be read")
	require.NoFileExists(t, "/nowhere/keyset.json")
	require.Contains(t, rotate(2, "--keyset-key", "env://ROOT"), "--new-keyset-key")
	require.Contains(t, rotate(2, "--keyset-key", other, "--new-keyset-key", other), "the same key")
	require.Contains(t, rotate(1, "--new-keyset-key", "env://ROOT"), "not set")
	require.Contains(t, rotate(1, "--keyset-key", "file://"+keyset, "--new-keyset-key", "file://"+filepath.Join(t.TempDir(), "third.json")), "cannot be opened")
}
