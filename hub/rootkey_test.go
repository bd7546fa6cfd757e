package hub_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A hub that was not given the new root key says so where a balancer looks, and is
// in service until the keys are rotated, which it cannot follow. With the file in
// place it recovers by itself.
func TestAHubWithoutTheNewRootKeyIsNotReadyOnceTheKeysChange(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	h := hubtest.Start(t, cfg)
	newer := filepath.Join(t.TempDir(), "keyset.json")
	_, err := hub.RootRotation{
		DataDir: h.DataDir, DatabaseURL: config.Secret(h.DatabaseURL), NewKeysetKey: "file://" + newer,
	}.Run(t.Context())
	require.NoError(t, err)
	says := func(status int, words string) {
		t.Helper()
		require.Eventually(t, func() bool {
			is, body := get(t, h.URL()+"/readyz")
			return is == status && strings.Contains(body, words)
		}, time.Minute, 100*time.Millisecond, words)
	}
	says(http.StatusOK, "vault: degraded: this hub lacks root key ")

	second := hubtest.Beside(t, cfg)
	second.KeysetKey = "file://" + newer
	other := hubtest.Start(t, second)
	_, err = other.Client(t, h.AdminToken).Vault.RotateVault(t.Context(), &deckhandv1.RotateVaultRequest{})
	require.NoError(t, err)
	says(http.StatusServiceUnavailable, "vault: this hub lacks root key ")

	data, err := os.ReadFile(newer)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(h.DataDir, "keyset.json"), data, 0o600))
	says(http.StatusOK, "vault: ok")
}

// sudo makes the new key, and the hub runs as a user of its own.
func TestANewRootKeyBelongsToTheOwnerOfTheOldOne(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	h := hubtest.Start(t, cfg)
	keyset := filepath.Join(h.DataDir, "keyset.json")
	require.NoError(t, os.Chown(keyset, 41234, 41235))
	rotated, err := hub.RootRotation{DataDir: h.DataDir, DatabaseURL: config.Secret(h.DatabaseURL)}.Run(t.Context())
	require.NoError(t, err)
	for _, path := range []string{keyset, rotated.Old} {
		var info unix.Stat_t
		require.NoError(t, unix.Lstat(path, &info))
		require.Equal(t, []uint32{41234, 41235, 0o600}, []uint32{info.Uid, info.Gid, info.Mode & 0o7777}, path)
	}
}
