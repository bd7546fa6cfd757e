package vault_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/vault"
)

// O4: sealed at rest, bound to one object, readable after a restart.
func TestWhatIsSealedOpensOnlyForItsObject(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyset.json")
	v, err := vault.Open(path)
	require.NoError(t, err)
	sealed, err := v.Seal([]byte("rm -rf /workspace/out"), "step_1")
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "workspace")

	again, err := vault.Open(path)
	require.NoError(t, err)
	value, err := again.Open(sealed, "step_1")
	require.NoError(t, err)
	require.Equal(t, "rm -rf /workspace/out", string(value))
	_, err = again.Open(sealed, "step_2")
	require.ErrorContains(t, err, "step_2")

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestManyHubsThatStartAtOnceShareOneKeyset(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyset.json")
	vaults := make([]*vault.Vault, 8)
	var wg sync.WaitGroup
	for i := range vaults {
		wg.Go(func() {
			v, err := vault.Open(path)
			if err != nil {
				t.Error(err)
			}
			vaults[i] = v
		})
	}
	wg.Wait()
	sealed, err := vaults[0].Seal([]byte("x"), "o")
	require.NoError(t, err)
	for _, v := range vaults {
		_, err := v.Open(sealed, "o")
		require.NoError(t, err)
	}
}

func TestAKeysetThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyset.json")
	_, err := vault.Open(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = vault.Open(path)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = vault.Open(path)
	require.ErrorContains(t, err, "not a Tink keyset")
}
