package vault_test

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/testing/fakekms"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
)

// Sealed at rest, bound to one object, readable after a restart.
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

// memory is a place for a keyset, for tests of roots.
type memory struct{ row db.Keyset }

func (m *memory) GetKeyset(context.Context) (db.Keyset, error) { return m.row, nil }
func (m *memory) KeysetVersion(context.Context) (db.KeysetVersionRow, error) {
	digest := sha256.Sum256(m.row.Keys)
	return db.KeysetVersionRow{Version: m.row.Version, Digest: digest[:]}, nil
}
func (m *memory) CreateKeyset(_ context.Context, keys []byte) error {
	if m.row.Version == 0 {
		m.row = db.Keyset{Version: 1, Keys: keys}
	}
	return nil
}

// A root key opens the keyset and nothing that is sealed, and not even that once
// another has taken its place.
func TestARootKeyThatWasReplacedOpensNothing(t *testing.T) {
	t.Parallel()
	open := func() vault.Root {
		root, err := vault.OpenRoot("file://" + filepath.Join(t.TempDir(), "keyset.json"))
		require.NoError(t, err)
		return root
	}
	first, second := open(), open()
	keysets := &memory{}
	v, err := vault.New(t.Context(), first, keysets)
	require.NoError(t, err)
	sealed, err := v.Seal([]byte("x"), "o")
	require.NoError(t, err)
	_, err = first.Decrypt(sealed, []byte("o"))
	require.Error(t, err, "the root seals nothing but the keyset")

	keys, err := vault.Rewrapped(keysets.row.Keys, first, second)
	require.NoError(t, err)
	keysets.row.Keys = keys
	keys, err = vault.Rewrapped(keysets.row.Keys, first, second)
	require.NoError(t, err)
	require.Nil(t, keys, "it is done already")
	_, err = vault.New(t.Context(), first, keysets)
	require.ErrorContains(t, err, "cannot be opened with the key that --keyset-key names")
	again, err := vault.New(t.Context(), second, keysets)
	require.NoError(t, err)
	value, err := again.Open(sealed, "o")
	require.NoError(t, err)
	require.Equal(t, "x", string(value))
}

// A hub that runs without the new root key reports which one it lacks, continues with the
// keys that it knows until those are rotated, and recovers when it gets the file.
func TestAHubWithoutTheNewRootKeySaysWhichItLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(name string) vault.Root {
		root, err := vault.OpenRoot("file://" + filepath.Join(dir, name))
		require.NoError(t, err)
		return root
	}
	first, second := open("first.json"), open("second.json")
	keysets := &memory{}
	hub, err := vault.New(t.Context(), first, keysets)
	require.NoError(t, err)
	require.NoError(t, hub.Refresh(t.Context()))
	require.Nil(t, hub.Unreadable())

	keysets.row.Keys, err = vault.Rewrapped(keysets.row.Keys, first, second)
	require.NoError(t, err)
	require.NoError(t, hub.Refresh(t.Context()), "the keys are the same")
	lacks := hub.Unreadable()
	require.NotNil(t, lacks)
	require.False(t, lacks.Stale)
	missing, _, _ := strings.Cut(second.String(), " of ")
	require.Equal(t, missing, lacks.Missing)
	require.ErrorContains(t, lacks.Err, "it is encrypted with "+missing+", and this is "+first.String())
	sealed, err := hub.Seal([]byte("x"), "o")
	require.NoError(t, err)
	_, err = vault.New(t.Context(), first, keysets)
	require.ErrorContains(t, err, missing, "a start says it, too")

	other, err := vault.New(t.Context(), second, keysets)
	require.NoError(t, err)
	keysets.row.Keys, err = other.Renewed(keysets.row.Keys)
	require.NoError(t, err)
	keysets.row.Version++
	require.ErrorContains(t, hub.Refresh(t.Context()), missing)
	require.True(t, hub.Unreadable().Stale)

	data, err := os.ReadFile(filepath.Join(dir, "second.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "first.json"), data, 0o600))
	require.NoError(t, hub.Refresh(t.Context()))
	require.Nil(t, hub.Unreadable())
	value, err := hub.Open(sealed, "o")
	require.NoError(t, err)
	require.Equal(t, "x", string(value))
}

// The keyset is encrypted with a key that a URI names: in a file, in a
// variable, or in a KMS by Tink's registry; with another it is not opened.
func TestTheKeysetIsSealedByAKeyThatAURINames(t *testing.T) {
	file := "file://" + filepath.Join(t.TempDir(), "keyset.json")
	data := func() string {
		path := filepath.Join(t.TempDir(), "other.json")
		_, err := vault.OpenRoot("file://" + path)
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	t.Setenv("VAULT_TEST_KEYSET", data())
	// Tink's own KMS for tests, whose key is in its URI.
	kms, err := fakekms.NewKeyURI()
	require.NoError(t, err)
	client, err := fakekms.NewClient("fake-kms://")
	require.NoError(t, err)
	registry.RegisterKMSClient(client)
	t.Cleanup(registry.ClearKMSClients)
	for _, uri := range []string{file, "env://VAULT_TEST_KEYSET", kms} {
		keysets := &memory{}
		open := func(uri string) (*vault.Vault, error) {
			root, err := vault.OpenRoot(uri)
			require.NoError(t, err)
			return vault.New(t.Context(), root, keysets)
		}
		v, err := open(uri)
		require.NoError(t, err, uri)
		sealed, err := v.Seal([]byte("x"), "o")
		require.NoError(t, err)
		again, err := open(uri)
		require.NoError(t, err)
		value, err := again.Open(sealed, "o")
		require.NoError(t, err)
		require.Equal(t, "x", string(value))
		_, err = open("file://" + filepath.Join(t.TempDir(), "keyset.json"))
		require.ErrorContains(t, err, "cannot be opened with the key that --keyset-key names")
	}
	t.Setenv("VAULT_TEST_BAD", "a secret that is no keyset")
	for uri, says := range map[string]string{
		"keyset.json":                    "is no URI",
		"file://keyset.json":             "not a whole path: use three slashes",
		"env://VAULT_TEST_UNSET":         `the variable "VAULT_TEST_UNSET", which is not set`,
		"env://VAULT_TEST_BAD":           "keyset variable VAULT_TEST_BAD is not a Tink keyset",
		"aws-kms://arn:aws:kms:eu:1:k":   "a key of aws-kms://, and this build has no client for it: use file:///path or env://NAME, or a build that registers Tink's client for aws-kms",
		"hcvault://vault.example/keys/k": "a key of hcvault://",
	} {
		_, err := vault.OpenRoot(uri)
		require.ErrorContains(t, err, says, uri)
		require.NotContains(t, err.Error(), "a secret that")
	}
}
