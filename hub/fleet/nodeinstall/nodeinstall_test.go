package nodeinstall_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/nodeinstall"
)

// program stands for deckhand-node where it is installed only: it writes down how it
// was called.
const program = `#!/bin/sh
[ "$1" != --version ] || { echo "deckhand-node version 1.2.3"; exit; }
echo "$DECKHAND_JOIN_TOKEN $*" >"$(dirname "$0")/called"
`

// The command that the console shows downloads the program, checks it, and runs it with
// the hub's address and the token.
func TestOneCommandInstallsANode(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || exec.Command("sh", "-c", "command -v curl containerd mkfs.ext4").Run() != nil {
		t.Skip("it installs as root, and what is missing on the machine")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "deckhand-node-linux-"+runtime.GOARCH)
	require.NoError(t, os.WriteFile(path, []byte(program), 0o600))
	hub := httptest.NewServer(nodeinstall.New(dir))
	defer hub.Close()
	bin := filepath.Join(t.TempDir(), "bin")
	run := func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "curl -fsSL "+hub.URL+"/install/node | sh")
		cmd.Env = append(append(os.Environ(), "DECKHAND_BIN_DIR="+bin), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("DECKHAND_HUB_URL="+hub.URL+"/", "DECKHAND_JOIN_TOKEN=dhj_secret.ca")
	require.NoError(t, err, out)
	called, err := os.ReadFile(filepath.Join(bin, "called"))
	require.NoError(t, err)
	require.Contains(t, string(called), "dhj_secret.ca install --hub-url "+hub.URL)
	require.Contains(t, out, "Installed deckhand-node version 1.2.3")
	require.NotContains(t, out, "dhj_secret")

	// Where others could replace the program, nothing is installed.
	require.NoError(t, os.RemoveAll(bin))
	require.NoError(t, os.Mkdir(bin, 0o755)) //nolint:gosec // a folder of programs
	for mode, says := range map[os.FileMode]string{0o775 | os.ModeSetgid: "a group may write to " + bin, 0o777: "everybody may write to " + bin} {
		require.NoError(t, os.Chown(bin, 0, 50))
		require.NoError(t, os.Chmod(bin, mode))
		out, err = run("DECKHAND_HUB_URL="+hub.URL, "DECKHAND_JOIN_TOKEN=dhj_secret.ca")
		require.Error(t, err, out)
		require.Contains(t, out, says)
		require.NoFileExists(t, filepath.Join(bin, "deckhand-node"))
	}
	require.NoError(t, os.Chown(bin, 0, 0))
	require.NoError(t, os.Chmod(bin, 0o775)) //nolint:gosec // root's group
	out, err = run("DECKHAND_HUB_URL="+hub.URL, "DECKHAND_JOIN_TOKEN=dhj_secret.ca")
	require.NoError(t, err, out)

	// Where the package is installed, its program is used and no other one is installed.
	packaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(packaged, "deckhand-node"), []byte(program), 0o700)) //nolint:gosec // a program
	require.NoError(t, os.RemoveAll(bin))
	out, err = run("DECKHAND_HUB_URL="+hub.URL, "DECKHAND_JOIN_TOKEN=dhj_secret.ca", "DECKHAND_PACKAGE_DIR="+packaged)
	require.NoError(t, err, out)
	called, err = os.ReadFile(filepath.Join(packaged, "called"))
	require.NoError(t, err)
	require.Contains(t, string(called), "dhj_secret.ca install --hub-url "+hub.URL)
	require.NoDirExists(t, bin)

	for name, env := range map[string][]string{
		"DECKHAND_HUB_URL is empty":    {"DECKHAND_JOIN_TOKEN=dhj_secret.ca", "DECKHAND_HUB_URL="},
		"DECKHAND_JOIN_TOKEN is empty": {"DECKHAND_HUB_URL=" + hub.URL, "DECKHAND_JOIN_TOKEN="},
		"is damaged":                   {"DECKHAND_HUB_URL=" + damaged(t), "DECKHAND_JOIN_TOKEN=dhj_secret.ca"},
	} {
		out, err := run(env...)
		require.Error(t, err, name)
		require.Contains(t, out, name)
	}

	require.NoError(t, os.Remove(path))
	out, err = run("DECKHAND_HUB_URL="+hub.URL, "DECKHAND_JOIN_TOKEN=dhj_secret.ca")
	require.Error(t, err)
	require.Contains(t, out, "this hub has no deckhand-node for linux/"+runtime.GOARCH)
}

// damaged is a server whose programs are not those that the hub vouches for.
func damaged(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other") }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestOnlyTheScriptAndItsProgramsAreServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deckhand-node-linux-arm64"), []byte(program), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600))
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		nodeinstall.New(dir).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		return w
	}
	sum := sha256.Sum256([]byte(program))
	require.Contains(t, get(http.MethodGet, "/install/node").Body.String(), "\n  arm64) sum="+hex.EncodeToString(sum[:])+" ;;\n  esac\n")
	require.Equal(t, program, get(http.MethodGet, "/install/deckhand-node-linux-arm64").Body.String())
	for _, path := range []string{"/install/", "/install/secret", "/install/deckhand-node-linux-amd64", "/install/deckhand-node-linux-../secret"} {
		require.Equal(t, http.StatusNotFound, get(http.MethodGet, path).Code, path)
	}
	require.Equal(t, http.StatusMethodNotAllowed, get(http.MethodPost, "/install/node").Code)
}
