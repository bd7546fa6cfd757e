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
