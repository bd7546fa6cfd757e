package cli_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packs are installed in the data folder of the node's configuration, and nowhere else: what only
// looks makes no folder, and a folder without a node is refused.
func TestPacksAreInstalledWhereTheNodeLooks(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "tool", Mode: 0o755, Typeflag: tar.TypeReg, Size: 1}))
	_, err := w.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	sum := sha256.Sum256(archive.Bytes())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) }))
	defer server.Close()
	dir := t.TempDir()
	data, config, pins, file := filepath.Join(dir, "data"), filepath.Join(dir, "node.yaml"), filepath.Join(dir, "packs.yaml"), filepath.Join(dir, "tool.tar")
	write := func(path string, text []byte) { require.NoError(t, os.WriteFile(path, text, 0o600)) }
	write(config, []byte("hub-url: https://hub.example:7800\ndata-dir: "+data+"\n"))
	write(pins, []byte("tool: {url: \""+server.URL+"\", sha256: "+hex.EncodeToString(sum[:])+"}\nother: {sha256: '"+hex.EncodeToString(make([]byte, 32))+"'}\n"))
	write(file, archive.Bytes())
	does := func(want int, says string, args ...string) {
		t.Helper()
		code, out, errs := run(t, append([]string{"pack"}, args...)...)
		require.Equal(t, want, code, "%v: %s%s", args, out, errs)
		require.Contains(t, out+errs, says)
	}
	does(0, "", "list", "--config", config)
	does(1, "there is no pack", "prune", "tool", "--config", config)
	require.NoDirExists(t, data, "what only looks makes nothing")
	does(1, "there is no node with the data folder", "fetch", "tool", "--config", config, "--pins", pins)
	require.NoError(t, os.Mkdir(data, 0o700))
	does(0, "current", "fetch", "tool", "--config", config, "--pins", pins)
	require.FileExists(t, filepath.Join(data, "packs", "shown", "tool", "current", "tool"))
	does(0, hex.EncodeToString(sum[:6]), "list", "--data-dir", data)
	does(1, "SHA-256", "import", "other", file, "--config", config, "--pins", pins)
	does(1, "has no pin", "import", "third", file, "--config", config, "--pins", pins)
	does(2, "arguments", "fetch", "--config", config)
	does(0, "deleted", "prune", "tool", "--config", config)
	does(0, "current", "import", "tool", file, "--config", config, "--pins", pins)
	does(0, "", "prune", "--config", config)
	does(0, "current", "list", "--config", config)
}
