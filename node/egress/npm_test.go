package egress_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // npm's own digest
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// npm, as it is and with nothing but the environment of a command, installs a package of a
// registry that wants a credential. The registry has a name: for one that is named by its address,
// npm compares any certificate with "localhost" when it has a proxy, and tries three times within
// more than a minute.
func TestNpmInstallsFromAPrivateRegistry(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	archive := npmPackage(t, map[string]string{"package.json": `{"name":"hello","version":"1.0.0"}`, "index.js": "console.log('from the package')\n"})
	sum := sha1.Sum(archive) //nolint:gosec // npm's own digest
	b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+secret:
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/npm/hello":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": "hello", "dist-tags": map[string]string{"latest": "1.0.0"},
				"versions": map[string]any{"1.0.0": map[string]any{
					"name": "hello", "version": "1.0.0",
					"dist": map[string]string{"tarball": "https://" + r.Host + "/npm/hello/-/hello-1.0.0.tgz", "shasum": hex.EncodeToString(sum[:])},
				}},
			})
		case r.URL.Path == "/npm/hello/-/hello-1.0.0.tgz":
			_, _ = w.Write(archive)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}, nil)
	b.proxy.Begin(jailID, "exec_1")
	home := t.TempDir()
	for _, name := range []string{egress.TrustBundle, egress.TrustAuthorities} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(b.hub.pem), 0o600))
	}
	// What a command has in a jail is elsewhere here.
	here := strings.NewReplacer("127.0.0.1:"+strconv.Itoa(allowlist.ProxyPort), b.listen(), nodelink.TrustPath, home)
	env := []string{"NPM_CONFIG_GLOBALCONFIG=" + filepath.Join(home, "none")} // not this machine's
	for _, entry := range egress.Environment("exec_1", &nodev1.Egress{Authorities: []string{b.hub.pem}}, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}) {
		env = append(env, here.Replace(entry))
	}
	for _, command := range [][]string{
		{"npm", "install", "--fetch-retries=0", "--no-audit", "--no-fund", "--no-update-notifier", "--registry=" + b.url("/npm/"), "hello"},
		{"node", "-e", "require('hello')"},
	} {
		cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // of this test
		cmd.Dir, cmd.Env = home, env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		if command[0] == "node" {
			assert.Equal(t, "from the package\n", string(out))
		}
	}
	assert.Len(t, b.hub.ended(t, 2), 2, "the document and the archive")
}

func npmPackage(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}
