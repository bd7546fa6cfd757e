package jail_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/node/pack"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// packed returns a tar of files of the machine by their names in it.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, path := range files {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}))
		_, err = w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// fetched installs an archive that is served from loopback in a node's packs.
func fetched(t *testing.T, cfg jail.Config, name string, data []byte) *pack.Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	defer server.Close()
	packs, err := pack.Open(cfg.DataDir)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	_, err = packs.Fetch(t.Context(), server.Client(), pack.Pin{Name: name, URL: server.URL, SHA256: hex.EncodeToString(sum[:])})
	require.NoError(t, err)
	return packs
}

// Every jail of a node is shown its packs, also one that runs already, and none can change them.
// What a command runs of a pack is not pruned.
func TestJailsAreShownThePacks(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	ids := []string{ensure(t, m), ensure(t, m, from(t, m, r, imagetest.Busybox(t)))}
	packs := fetched(t, cfg, "tool", packed(t, map[string]string{"bin/busybox": "/bin/busybox"}))
	tool := nodelink.PacksPath + "/tool/current/bin/busybox"
	for _, id := range ids {
		end, text := sh(t, m, id, tool+" echo of the pack; echo x 2>/dev/null >> "+tool+" || echo refused; touch "+nodelink.PacksPath+"/x 2>/dev/null || echo refused")
		require.Zero(t, end.GetExitCode(), text)
		require.Equal(t, "of the pack\nrefused\nrefused\n", text)
	}
	begin(t, m, ids[0], "exec $(readlink -f "+tool+") sleep 600")
	waittest.Until(t, time.Minute, "the pack to be in use", func() bool {
		all, err := packs.List()
		require.NoError(t, err)
		return len(all) == 1 && all[0].InUse
	})
	deleted, kept, err := packs.Prune(t.Context(), "tool")
	require.NoError(t, err)
	require.Empty(t, deleted)
	require.Len(t, kept, 1)
	_, err = m.Stop(t.Context(), ids[0])
	require.NoError(t, err)
	deleted, _, err = packs.Prune(t.Context(), "tool")
	require.NoError(t, err)
	require.Len(t, deleted, 1)
}

// The machine's own Chromium, as a pack, runs in a jail whose image has no more than the libraries
// that it needs.
func TestChromiumOfAPackRunsInAnImageWithoutOne(t *testing.T) {
	if os.Getenv(jailtest.EnvSoak) == "" {
		t.Skip(jailtest.EnvSoak + " is not set: the pack has 300 MB")
	}
	t.Parallel()
	const at = "/usr/lib/chromium/"
	files := map[string]string{}
	for _, name := range []string{"chromium", "icudtl.dat", "v8_context_snapshot.bin", "resources.pak", "chrome_100_percent.pak", "locales/en-US.pak"} {
		files[name] = at + name
	}
	out, err := exec.Command("ldd", at+"chromium").Output()
	require.NoError(t, err)
	var libraries []imagetest.File
	for _, m := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllSubmatch(out, -1) {
		path := string(m[1])
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		name := strings.TrimPrefix(path, "/")
		if strings.Contains(name, "ld-linux") {
			libraries = append(libraries, imagetest.File{Header: tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeReg}, Content: string(data)})
			continue
		}
		files["lib/"+filepath.Base(name)] = path
	}
	m, cfg, r := withRegistry(t)
	packs := fetched(t, cfg, "chromium", packed(t, files))
	id := ensure(t, m, from(t, m, r, imagetest.Busybox(t, imagetest.Layer(t, libraries...))), func(s *nodev1.JailSpec) { s.MemoryBytes = 2 << 30 })
	folder := nodelink.PacksPath + "/chromium/current"
	end, text := sh(t, m, id, "test -e /usr/lib/chromium && exit 9; LD_LIBRARY_PATH="+folder+"/lib "+folder+
		`/chromium --headless=new --no-sandbox --no-zygote --disable-gpu --disable-dev-shm-usage --user-data-dir=/tmp/profile --dump-dom 'data:text/html,<h1>In the pack</h1>' 2>/tmp/said || cat /tmp/said`)
	require.Zero(t, end.GetExitCode(), text)
	require.Contains(t, text, "<h1>In the pack</h1>")
	_, kept, err := packs.Prune(t.Context())
	require.NoError(t, err)
	require.Empty(t, kept)
}
