package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A context that is added keeps the current one, and only its owner reads the file.
func TestAnAddedContextKeepsTheCurrentOne(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	require.Equal(t, 0, execute(t.Context(), "context", "add", "local", "--hub", "http://127.0.0.1:7800", "--token", testToken).code)
	got := execute(t.Context(), "context", "add", "prod", "--hub", "https://hub.example.com")
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, "the current context is still local")
	require.Contains(t, execute(t.Context(), "context", "list").stdout, "*        local  http://127.0.0.1:7800")
	info, err := os.Stat(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "deckhand/config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.Equal(t, 0, execute(t.Context(), "context", "remove", "prod").code)
	got = execute(t.Context(), "context", "remove", "local")
	require.Contains(t, got.stderr, "no context is current now")
	require.Equal(t, 3, execute(t.Context(), "context", "remove", "local").code)
	require.Equal(t, 2, execute(t.Context(), "context", "add", "x").code)
}

// A context of another hub, with the token that is in it, is not lost by adding one of its
// name: only by saying so. The name alone is kept for the same hub.
func TestAContextOfAnotherHubIsKept(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	list := func() string { return execute(t.Context(), "context", "list").stdout }
	require.Equal(t, 0, execute(t.Context(), "context", "add", "prod", "--hub", "https://hub.example.com/", "--token", testToken).code)
	for _, flags := range [][]string{nil, {"--replace-loopback"}} {
		got := execute(t.Context(), append([]string{"context", "add", "prod", "--hub", "http://127.0.0.1:7800"}, flags...)...)
		require.NotEqual(t, 0, got.code)
		require.Contains(t, got.stderr, "the context prod is for https://hub.example.com")
		require.Contains(t, got.stderr, "--replace")
		require.Contains(t, list(), "https://hub.example.com")
	}
	require.Equal(t, 0, execute(t.Context(), "context", "add", "prod", "--hub", "https://hub.example.com").code, "of the same hub")
	require.Equal(t, 0, execute(t.Context(), "context", "add", "prod", "--hub", "http://127.0.0.1:7800", "--replace").code)
	require.NotContains(t, list(), "hub.example.com")
	// deckhand up takes another port of this machine for the same hub.
	require.Equal(t, 0, execute(t.Context(), "context", "add", "prod", "--hub", "http://127.0.0.1:7900", "--replace-loopback").code)
	require.Contains(t, list(), "http://127.0.0.1:7900")
}
